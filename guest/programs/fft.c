// SPDX-License-Identifier: MIT
// packages: fftw3
// install: libfftw3-dev
// A complex transform of 1024 doubles. The plan is estimated, not measured: measuring would choose
// another one in another boot.
#include <fftw3.h>
#include <math.h>

#include "remote.h"

enum { POINTS = 1024 };

static fftw_complex *from, *to;
static fftw_plan plan;

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++)
        fftw_execute(plan);
}

int main(void) {
    remote_begin();
    from = fftw_alloc_complex(POINTS);
    to = fftw_alloc_complex(POINTS);
    plan = from && to ? fftw_plan_dft_1d(POINTS, from, to, FFTW_FORWARD, FFTW_ESTIMATE) : NULL;
    if (!plan)
        remote_fail("no plan for a transform");
    for (int i = 0; i < POINTS; i++) {
        from[i][0] = cos(2 * M_PI * 5 * i / POINTS);
        from[i][1] = sin(2 * M_PI * 5 * i / POINTS);
    }
    body(1);
    // All of that wave is in the fifth frequency.
    if (fabs(to[5][0] - POINTS) > 1e-6 || fabs(to[4][0]) > 1e-6)
        remote_fail("the transform is wrong: %g instead of %d", to[5][0], POINTS);
    return remote_serve(body);
}
