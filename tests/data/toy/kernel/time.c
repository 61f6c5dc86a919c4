#include <toy.h>
int toy_hz(void)
{
	return CONFIG_HZ;
}
