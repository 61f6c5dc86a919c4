#ifndef CONFIG_SORT
int toy_sort(void) { return 0; }
#endif
const char *toy_place(void)
{
	return __FILE__;
}
