#define TOY_LIMIT 10
#define TOY_SIZE 4
int toy_hz(void);
int toy_sort(void);
const char *toy_place(void);
