// SPDX-License-Identifier: MIT
// packages: gtk+-3.0
// install: libgtk-3-dev xvfb
// A window of ordinary controls, redrawn again and again on a virtual X server of its own. A
// redraw is over when the server has answered that it has drawn everything.
#include <errno.h>
#include <fcntl.h>
#include <gtk/gtk.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "remote.h"

static pid_t server;
static GtkWidget *window, *progress;

static void stop_server(void) {
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
}

// Names its display in DISPLAY.
static void start_server(void) {
    int numbers[2], news[2], why;
    char number[16] = "", descriptor[16], display[32];
    // The sandbox around cases on a host refuses Unix sockets; a guest has its own.
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    const char *tcp = local < 0 ? "-listen" : "-nolisten";
    const char *sockets = local < 0 ? "unix" : "tcp", *abstract = local < 0 ? "local" : "tcp";
    close(local);
    mkdir("/tmp/.X11-unix", 01777);
    if (pipe(numbers) || pipe2(news, O_CLOEXEC))
        remote_fail("pipe: %s", strerror(errno));
    snprintf(descriptor, sizeof descriptor, "%d", numbers[1]);
    server = fork();
    if (server < 0)
        remote_fail("fork: %s", strerror(errno));
    if (!server) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(numbers[0]);
        execlp("Xvfb", "Xvfb", "-displayfd", descriptor, "-screen", "0", "800x600x24", tcp, "tcp",
               "-nolisten", sockets, "-nolisten", abstract, "-ac", "-noreset", "-shmem",
               (char *)NULL);
        why = errno;
        _exit(write(news[1], &why, sizeof why) < 0);
    }
    close(numbers[1]);
    close(news[1]);
    if (read(news[0], &why, sizeof why) == sizeof why) {
        if (why == ENOENT)
            remote_skip("Xvfb is not installed: apt-get install xvfb");
        remote_fail("cannot start Xvfb: %s", strerror(why));
    }
    close(news[0]);
    atexit(stop_server);
    for (size_t used = 0; used < sizeof number - 1; used++)
        if (read(numbers[0], number + used, 1) != 1 || number[used] == '\n') {
            number[used] = 0;
            break;
        }
    if (!*number)
        remote_fail("Xvfb ended before it had a display");
    snprintf(display, sizeof display, "%s:%s", local < 0 ? "127.0.0.1" : "", number);
    setenv("DISPLAY", display, 1);
}

static void add(GtkWidget *box, GtkWidget *widget) {
    gtk_box_pack_start(GTK_BOX(box), widget, FALSE, FALSE, 2);
}

static GtkWidget *list(void) {
    GtkListStore *store = gtk_list_store_new(2, G_TYPE_STRING, G_TYPE_INT);
    for (int i = 0; i < 12; i++)
        gtk_list_store_insert_with_values(store, NULL, -1, 0, "an entry of the list", 1, i, -1);
    GtkWidget *view = gtk_tree_view_new_with_model(GTK_TREE_MODEL(store));
    static const char *const heads[] = {"name", "number"};
    for (int i = 0; i < 2; i++)
        gtk_tree_view_insert_column_with_attributes(GTK_TREE_VIEW(view), -1, heads[i],
                                                    gtk_cell_renderer_text_new(), "text", i, NULL);
    return view;
}

static void make_window(void) {
    window = gtk_window_new(GTK_WINDOW_TOPLEVEL);
    gtk_window_set_default_size(GTK_WINDOW(window), 640, 480);
    GtkWidget *columns = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 4);
    GtkWidget *left = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0);
    GtkWidget *right = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0);
    for (int i = 0; i < 4; i++) {
        add(left, gtk_button_new_with_label("a button"));
        add(left, gtk_check_button_new_with_label("a check box"));
        add(left, gtk_radio_button_new_with_label(NULL, "a radio button"));
        GtkWidget *entry = gtk_entry_new();
        gtk_entry_set_text(GTK_ENTRY(entry), "some text");
        add(right, entry);
        add(right, gtk_scale_new_with_range(GTK_ORIENTATION_HORIZONTAL, 0, 10, 1));
    }
    progress = gtk_progress_bar_new();
    add(right, progress);
    add(right, list());
    gtk_container_add(GTK_CONTAINER(columns), left);
    gtk_box_pack_start(GTK_BOX(columns), right, TRUE, TRUE, 2);
    gtk_container_add(GTK_CONTAINER(window), columns);
    gtk_widget_show_all(window);
    for (int i = 0; i < 200 || gtk_events_pending(); i++)
        gtk_main_iteration_do(FALSE);
}

static void body(uint64_t iterations) {
    GdkWindow *drawn = gtk_widget_get_window(window);
    for (uint64_t i = 0; i < iterations; i++) {
        gtk_progress_bar_set_fraction(GTK_PROGRESS_BAR(progress), (double)(i % 100) / 100);
        gdk_window_invalidate_rect(drawn, NULL, TRUE);
        // At once: the toolkit's own clock would draw sixty times a second, however fast it could.
        G_GNUC_BEGIN_IGNORE_DEPRECATIONS
        gdk_window_process_updates(drawn, TRUE);
        G_GNUC_END_IGNORE_DEPRECATIONS
        gdk_display_sync(gdk_window_get_display(drawn));
        while (gtk_events_pending())
            gtk_main_iteration_do(FALSE);
    }
}

static gboolean count_draw(GtkWidget *widget, cairo_t *pen, gpointer count) {
    (void)widget;
    (void)pen;
    ++*(unsigned *)count;
    return FALSE;
}

int main(int argc, char **argv) {
    unsigned drawn = 0;
    remote_begin();
    // No desktop is asked for anything: what it answers, and how fast, is not what is measured.
    setenv("NO_AT_BRIDGE", "1", 1);
    setenv("GSETTINGS_BACKEND", "memory", 1);
    setenv("GIO_USE_VFS", "local", 1);
    setenv("GDK_BACKEND", "x11", 1);
    setenv("GTK_THEME", "Adwaita", 1);
    setenv("DBUS_SESSION_BUS_ADDRESS", "disabled:", 1);
    start_server();
    if (!gtk_init_check(&argc, &argv))
        remote_fail("GTK cannot use the display of Xvfb");
    make_window();
    gulong handler = g_signal_connect(progress, "draw", G_CALLBACK(count_draw), &drawn);
    body(3);
    if (drawn < 3)
        remote_fail("3 redraws of the window drew the progress bar %u times", drawn);
    g_signal_handler_disconnect(progress, handler);
    return remote_serve(body);
}
