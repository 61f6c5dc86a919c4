// SPDX-License-Identifier: MIT
// packages: egl glesv2
// install: libegl-dev libgles-dev libegl-mesa0 libgl1-mesa-dri
// Textured squares that turn, drawn off screen: EGL without a window system, Mesa's software
// renderer. A frame is over when a pixel of it has been read.
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GLES2/gl2.h>
#include <math.h>

#include "remote.h"

enum { SIDE = 512, TEXTURE = 64, SQUARES = 36 };

static const char vertex_source[] =
    "attribute vec2 corner;\n"
    "uniform vec4 place;\n" // x, y, cosine, sine
    "varying vec2 spot;\n"
    "void main() {\n"
    "    vec2 c = corner * 0.14;\n"
    "    vec2 t = vec2(c.x * place.z - c.y * place.w,\n"
    "                  c.x * place.w + c.y * place.z);\n"
    "    gl_Position = vec4(t + place.xy, 0.0, 1.0);\n"
    "    spot = corner * 0.5 + 0.5;\n"
    "}\n";
static const char fragment_source[] =
    "precision mediump float;\n"
    "varying vec2 spot;\n"
    "uniform sampler2D image;\n"
    "void main() { gl_FragColor = texture2D(image, spot); }\n";

static GLint place;
static unsigned frame;

static EGLDisplay open_display(void) {
    PFNEGLGETPLATFORMDISPLAYEXTPROC get =
        (PFNEGLGETPLATFORMDISPLAYEXTPROC)eglGetProcAddress("eglGetPlatformDisplayEXT");
    EGLDisplay display =
        get ? get(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, NULL) : EGL_NO_DISPLAY;
    if (display == EGL_NO_DISPLAY || !eglInitialize(display, NULL, NULL))
        remote_skip("no OpenGL off screen: apt-get install libegl-mesa0 libgl1-mesa-dri");
    return display;
}

static void open_context(void) {
    EGLDisplay display = open_display();
    EGLConfig config;
    EGLint count = 0;
    eglBindAPI(EGL_OPENGL_ES_API);
    static const EGLint wanted[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE,
                                    EGL_OPENGL_ES2_BIT, EGL_NONE};
    static const EGLint version[] = {EGL_CONTEXT_CLIENT_VERSION, 2, EGL_NONE};
    if (!eglChooseConfig(display, wanted, &config, 1, &count) || !count)
        remote_fail("EGL has no configuration: error 0x%x", eglGetError());
    EGLContext context = eglCreateContext(display, config, EGL_NO_CONTEXT, version);
    if (!eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context))
        remote_fail("EGL gives no context without a surface: error 0x%x", eglGetError());
}

static void attach(GLuint program, GLenum kind, const char *source) {
    GLuint shader = glCreateShader(kind);
    GLint good = 0;
    glShaderSource(shader, 1, &source, NULL);
    glCompileShader(shader);
    glGetShaderiv(shader, GL_COMPILE_STATUS, &good);
    if (!good)
        remote_fail("a shader does not compile");
    glAttachShader(program, shader);
}

static void open_canvas(void) {
    GLuint buffer, canvas;
    glGenTextures(1, &canvas);
    glBindTexture(GL_TEXTURE_2D, canvas);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, SIDE, SIDE, 0, GL_RGBA, GL_UNSIGNED_BYTE, NULL);
    glGenFramebuffers(1, &buffer);
    glBindFramebuffer(GL_FRAMEBUFFER, buffer);
    glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, canvas, 0);
    if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE)
        remote_fail("no canvas of %d times %d pixels", SIDE, SIDE);
    glViewport(0, 0, SIDE, SIDE);
}

static void load_texture(void) {
    static unsigned char pixels[TEXTURE][TEXTURE][4];
    GLuint texture;
    for (int y = 0; y < TEXTURE; y++)
        for (int x = 0; x < TEXTURE; x++) {
            pixels[y][x][0] = (unsigned char)(4 * x);
            pixels[y][x][1] = (unsigned char)(4 * y);
            pixels[y][x][2] = (x / 8 + y / 8) % 2 ? 255 : 64;
            pixels[y][x][3] = 160;
        }
    glGenTextures(1, &texture);
    glBindTexture(GL_TEXTURE_2D, texture);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, TEXTURE, TEXTURE, 0, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_LINEAR);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_LINEAR);
}

static void load_program(void) {
    static const GLfloat corners[] = {-1, -1, 1, -1, -1, 1, 1, 1};
    GLuint program = glCreateProgram();
    attach(program, GL_VERTEX_SHADER, vertex_source);
    attach(program, GL_FRAGMENT_SHADER, fragment_source);
    glBindAttribLocation(program, 0, "corner");
    glLinkProgram(program);
    glUseProgram(program);
    place = glGetUniformLocation(program, "place");
    glEnableVertexAttribArray(0);
    glVertexAttribPointer(0, 2, GL_FLOAT, GL_FALSE, 0, corners);
    glEnable(GL_BLEND);
    glBlendFunc(GL_SRC_ALPHA, GL_ONE_MINUS_SRC_ALPHA);
    glClearColor(0, 0, 0, 1);
}

static unsigned draw_frame(void) {
    unsigned char pixel[4];
    glClear(GL_COLOR_BUFFER_BIT);
    for (int i = 0; i < SQUARES; i++) {
        float angle = 0.02f * (float)frame + (float)i;
        glUniform4f(place, (float)(i % 6) / 3.2f - 0.78f, (float)(i / 6) / 3.2f - 0.78f,
                    cosf(angle), sinf(angle));
        glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
    }
    frame++;
    glReadPixels(56, 56, 1, 1, GL_RGBA, GL_UNSIGNED_BYTE, pixel);
    return pixel[0] + pixel[1] + pixel[2];
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++)
        draw_frame();
    if (glGetError() != GL_NO_ERROR)
        remote_fail("OpenGL reports an error after frame %u", frame);
}

int main(void) {
    remote_begin();
    // The software renderer also where there is a graphics card: that is not what is measured.
    setenv("LIBGL_ALWAYS_SOFTWARE", "1", 1);
    setenv("GALLIUM_DRIVER", "llvmpipe", 1);
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
    open_context();
    open_canvas();
    load_texture();
    load_program();
    if (!draw_frame())
        remote_fail("the middle of the first square stays black");
    return remote_serve(body);
}
