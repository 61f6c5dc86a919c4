#include <stdio.h>
#include <toy.h>
int main(void)
{
	printf("limit %d, hz %d, sort %d, place %s\n", TOY_LIMIT, toy_hz(), toy_sort(), toy_place());
	return 0;
}
