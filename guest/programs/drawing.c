// SPDX-License-Identifier: MIT
// packages: cairo
// install: libcairo2-dev
// One object after the other, antialiased and half transparent, into a picture in memory.
#include <cairo.h>
#include <math.h>
#include <string.h>

#include "remote.h"

enum { SIDE = 512 };

static cairo_surface_t *picture;
static cairo_t *pen;
static uint32_t state = 1;

static double random_to(double most) {
    state = state * 1664525 + 1013904223;
    return most * (state >> 8) / (1 << 24);
}

static void line(void) {
    cairo_move_to(pen, random_to(SIDE), random_to(SIDE));
    cairo_line_to(pen, random_to(SIDE), random_to(SIDE));
    cairo_stroke(pen);
}

static void rectangle(void) {
    double x = random_to(SIDE), y = random_to(SIDE);
    cairo_rectangle(pen, x, y, random_to(SIDE / 4), random_to(SIDE / 4));
    cairo_fill(pen);
}

static void circle(void) {
    double x = random_to(SIDE), y = random_to(SIDE);
    cairo_new_sub_path(pen);
    cairo_arc(pen, x, y, 2 + random_to(SIDE / 8), 0, 2 * M_PI);
    cairo_fill(pen);
}

static void bezier(void) {
    double at[8];
    for (int i = 0; i < 8; i++)
        at[i] = random_to(SIDE);
    cairo_move_to(pen, at[0], at[1]);
    cairo_curve_to(pen, at[2], at[3], at[4], at[5], at[6], at[7]);
    cairo_stroke(pen);
}

static void text(void) {
    cairo_move_to(pen, random_to(SIDE), random_to(SIDE));
    cairo_show_text(pen, "the quick brown fox");
}

static const struct object {
    const char *name;
    void (*draw)(void);
} objects[] = {
    {"line", line},     {"rectangle", rectangle}, {"circle", circle},
    {"bezier", bezier}, {"text", text},
};
static const struct object *chosen;

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        double red = random_to(1), green = random_to(1), blue = random_to(1);
        cairo_set_source_rgba(pen, red, green, blue, 0.5);
        chosen->draw();
    }
    cairo_surface_flush(picture);
    if (cairo_status(pen))
        remote_fail("cairo: %s", cairo_status_to_string(cairo_status(pen)));
}

static void must_have_drawn(void) {
    body(100);
    const unsigned char *bytes = cairo_image_surface_get_data(picture);
    for (size_t i = 0; i < (size_t)cairo_image_surface_get_stride(picture) * SIDE; i++)
        if (bytes[i])
            return;
    remote_skip("nothing appears in the picture%s", chosen->draw == text
                                                        ? "; is there a font? "
                                                          "apt-get install fonts-dejavu-core"
                                                        : "");
}

int main(int argc, char **argv) {
    remote_begin();
    for (size_t i = 0; argc == 2 && i < sizeof objects / sizeof *objects; i++)
        if (!strcmp(argv[1], objects[i].name))
            chosen = &objects[i];
    if (!chosen)
        remote_fail("drawing wants line, rectangle, circle, bezier or text");
    picture = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, SIDE, SIDE);
    pen = cairo_create(picture);
    cairo_set_antialias(pen, CAIRO_ANTIALIAS_DEFAULT);
    cairo_set_line_width(pen, 2);
    cairo_select_font_face(pen, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(pen, 14);
    must_have_drawn();
    return remote_serve(body);
}
