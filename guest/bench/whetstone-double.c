// SPDX-License-Identifier: MIT
// Whetstone (Curnow and Wichmann, A synthetic benchmark, The Computer Journal 19:1, 1976) in double
// precision. One operation is one pass of the eight modules with their classic weights, which
// stands for 100,000 Whetstone instructions: operations per second ÷ 10 are MWIPS.
#include <math.h>
#include <string.h>

#include "bench.h"

// The modules are written so that a compiler can do with them what it does with the C program in
// wide use, where T changes while it runs, T1 and T2 are constants, the array is a local one and
// the small procedures may be inlined: the figures are comparable only if the work is. What must
// not happen is that the modules themselves are computed in advance.
#define MODULE __attribute__((noipa)) static void

static const double t1 = 0.50000025, t2 = 2.0;
static volatile double given_t = 0.49999975;
static double t;
static double kept[4]; // the array between two modules
static uint64_t last_passes;

static struct {
    double identifiers, parameter, conditional, integer, trigonometric, calls, references, standard;
} results;

MODULE identifiers(uint64_t turns) {
    double e[4] = {1, -1, -1, -1}, factor = t;
    for (uint64_t i = 0; i < turns; i++) {
        e[0] = (e[0] + e[1] + e[2] - e[3]) * factor;
        e[1] = (e[0] + e[1] - e[2] + e[3]) * factor;
        e[2] = (e[0] - e[1] + e[2] + e[3]) * factor;
        e[3] = (-e[0] + e[1] + e[2] + e[3]) * factor;
    }
    memcpy(kept, e, sizeof kept);
    results.identifiers = e[3];
}

static void array_parameter(double *e, double factor) {
    for (int turn = 0; turn < 6; turn++) {
        e[0] = (e[0] + e[1] + e[2] - e[3]) * factor;
        e[1] = (e[0] + e[1] - e[2] + e[3]) * factor;
        e[2] = (e[0] - e[1] + e[2] + e[3]) * factor;
        e[3] = (-e[0] + e[1] + e[2] + e[3]) / t2;
    }
}

MODULE parameter(uint64_t turns) {
    double e[4], factor = t;
    memcpy(e, kept, sizeof e); // from where the first module left it
    for (uint64_t i = 0; i < turns; i++)
        array_parameter(e, factor);
    results.parameter = e[3];
}

MODULE conditional(uint64_t turns) {
    long j = 1;
    for (uint64_t i = 0; i < turns; i++) {
        j = j == 1 ? 2 : 3;
        j = j > 2 ? 0 : 1;
        j = j < 1 ? 1 : 0;
    }
    results.conditional = (double)j;
}

MODULE integer(uint64_t turns) {
    double e[4];
    long j = 1, k = 2, l = 3;
    for (uint64_t i = 0; i < turns; i++) {
        j = j * (k - j) * (l - k);
        k = l * k - (l - j) * k;
        l = (l - k) * (k + j);
        e[l - 2] = (double)(j + k + l);
        e[k - 2] = (double)(j * k * l);
    }
    results.integer = e[0] + e[1];
}

MODULE trigonometric(uint64_t turns) {
    double x = 0.5, y = 0.5, factor = t;
    for (uint64_t i = 0; i < turns; i++) {
        x = factor * atan(t2 * sin(x) * cos(x) / (cos(x + y) + cos(x - y) - 1));
        y = factor * atan(t2 * sin(y) * cos(y) / (cos(x + y) + cos(x - y) - 1));
    }
    results.trigonometric = y;
}

static void three_numbers(double *x, double *y, double *z, double factor) {
    *x = *y;
    *y = *z;
    *x = factor * (*x + *y);
    *y = t1 * (*x + *y);
    *z = (*x + *y) / t2;
}

MODULE calls(uint64_t turns) {
    double x = 1, y = 1, z = 1, factor = t;
    for (uint64_t i = 0; i < turns; i++)
        three_numbers(&x, &y, &z, factor);
    results.calls = z;
}

static void turn_around(double *e, long j, long k, long l) {
    e[j] = e[k];
    e[k] = e[l];
    e[l] = e[j];
}

MODULE references(uint64_t turns) {
    double e[4] = {1, 2, 3};
    for (uint64_t i = 0; i < turns; i++)
        turn_around(e, 0, 1, 2);
    results.references = e[2];
}

MODULE standard(uint64_t turns) {
    double x = 0.75;
    for (uint64_t i = 0; i < turns; i++)
        x = sqrt(exp(log(x) / t1));
    results.standard = x;
}

static void others(uint64_t passes) {
    conditional(345 * passes);
    integer(210 * passes);
    trigonometric(32 * passes);
    calls(899 * passes);
    references(616 * passes);
    standard(93 * passes);
}

static void body(uint64_t passes) {
    identifiers(12 * passes);
    parameter(14 * passes);
    others(passes);
    last_passes = passes;
}

static void check(const char *module, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        bench_fail("the module %s gave %.15g instead of %.15g", module, got, want);
}

// The values that the C program in wide use gives in double precision: a hundred passes, the first
// module ten times as often.
static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    t = given_t;
    identifiers(12 * 1000);
    parameter(14 * 100);
    others(100);
    trigonometric(32 * 100 - 1); // that program counts this module's turns from one
    check("identifiers", results.identifiers, -1.12398255667391900, 1e-9);
    check("array parameter", results.parameter, -1.12187079889294600, 1e-9);
    check("conditional", results.conditional, 1, 0);
    check("integer", results.integer, 12, 0);
    check("trigonometric", results.trigonometric, 0.49902937281518, 1e-9);
    check("calls", results.calls, 0.99999987890803, 1e-9);
    check("references", results.references, 3, 0);
    check("standard", results.standard, 0.75100163018453, 1e-9);
}

// The exact modules give the same however long they run.
static void cleanup(void) {
    check("conditional", results.conditional, last_passes % 2 ? 0 : 1, 0); // 345 turns a pass
    check("integer", results.integer, 12, 0);
    check("references", results.references, 3, 0);
}

BENCH(whetstone_double) = {
    .help = "one pass of Whetstone in double precision: 100,000 Whetstone instructions",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
