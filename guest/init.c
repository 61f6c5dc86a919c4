// SPDX-License-Identifier: MIT
// Process 1 of a booted kernel: makes the machine usable, runs the job, powers off.
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "machine.h"
#include "rights.h"
#include "scatter.h"
#include "scheduler.h"
#include "session.h"
#include "verbs.h"

static const struct machine *machine; // known before anything can fail

static _Noreturn void power_off(void) {
    sync();
    reboot(machine->ends_by);
    fprintf(stderr, "kdyno-guest: cannot power off: %s\n", strerror(errno));
    _exit(1); // the kernel panics, which ends the boot too
}

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "kdyno-guest: %s: %s\n", what, why);
    power_off();
}

static void must_mount(const char *type, const char *at, const char *data) {
    mkdir(at, 0755);
    if (mount(type, at, type, MS_NODEV, data) && errno != EBUSY)
        die(at, strerror(errno));
}

static void may_mount(const char *type, const char *at, unsigned long flags, const char *data) {
    mkdir(at, 0755);
    if (mount(type, at, type, flags, data) && errno != EBUSY)
        fprintf(stderr, "kdyno-guest: no %s on %s: %s\n", type, at, strerror(errno));
}

// The kernel opens no console when /dev was empty before devtmpfs came.
static void open_console(void) {
    if (fcntl(2, F_GETFD) >= 0)
        return;
    int fd = open("/dev/console", O_RDWR | O_NOCTTY);
    if (fd < 0)
        fd = open("/dev/null", O_RDWR);
    for (int want = 0; fd >= 0 && want < 3; want++)
        dup2(fd, want);
    if (fd > 2)
        close(fd);
}

static void loopback_up(void) {
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return; // a kernel without network is a kernel too
    if (!ioctl(fd, SIOCGIFFLAGS, &request)) {
        request.ifr_flags |= IFF_UP | IFF_RUNNING;
        if (ioctl(fd, SIOCSIFFLAGS, &request))
            fprintf(stderr, "kdyno-guest: loopback stays down: %s\n", strerror(errno));
    }
    close(fd);
}

static void set_limit(int which, rlim_t value) {
    setrlimit(which, &(struct rlimit){value, value});
}

static void tidy_environment(void) {
    const char *dir = getenv("KDYNO_DIR");
    char *kept = dir ? strdup(dir) : NULL;
    clearenv();
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    setenv("HOME", "/tmp", 1);
    setenv("TMPDIR", "/tmp", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("TERM", "dumb", 1);
    if (kept)
        setenv("KDYNO_DIR", kept, 1);
}

// The value of a word NAME=VALUE of the kernel's command line, or NULL. A word with a dot never
// reaches init's environment: the kernel takes it for a module's parameter. It stands in
// /proc/cmdline all the same.
static char *told(const char *name) {
    char line[4097];
    int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    close(fd);
    line[got > 0 ? got : 0] = 0;
    size_t length = strlen(name);
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
        if (!strncmp(word, name, length) && word[length] == '=')
            return strdup(word + length + 1);
    return NULL;
}

// Of a kernel that has its drivers as modules: what the host put into the initramfs, in its order.
static void load_modules(void) {
    char path[32];
    int fd;
    for (int i = 0; snprintf(path, sizeof path, "/modules/%02d.ko", i),
             (fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0;
         i++) {
        if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
            fprintf(stderr, "kdyno-guest: %s: %s\n", path, strerror(errno));
        close(fd);
        unlink(path); // it is memory
    }
}

// A kernel of a distribution has work of its own after its start, on other tasks: self-tests,
// drivers that come late. It is at rest where no task but this one has wanted to run for a while.
static void await_rest(void) {
    const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};
    int quiet = 0;
    for (int i = 0; i < 6000 && quiet < 10; i++) {
        nanosleep(&step, NULL);
        FILE *file = fopen("/proc/loadavg", "re");
        int running = 0;
        if (!file || fscanf(file, "%*s %*s %*s %d/", &running) != 1)
            running = 0;
        if (file)
            fclose(file);
        quiet = running == 1 ? quiet + 1 : 0;
    }
    if (quiet < 10)
        fprintf(stderr, "kdyno-guest: WARNING: the kernel did not come to rest in 60 s\n");
}

static int open_channel(void) {
    const char *path = machine->channel;
    int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        char why[200];
        snprintf(why, sizeof why, "no results channel: %s", machine->channel_asks);
        die(path, why);
    }
    struct termios mode;
    if (machine->channel_is_tty) {
        if (tcgetattr(fd, &mode))
            die(path, strerror(errno));
        cfmakeraw(&mode);
        if (tcsetattr(fd, TCSANOW, &mode))
            die(path, strerror(errno));
    }
    unlink(path); // cases have no business there
    return fd;
}

// Together with the other tmpfs well below the memory: full folders must not end in a panic.
static void fresh_tmp(void) {
    must_mount("tmpfs", "/tmp", "mode=1777,size=60%");
    if (chdir("/tmp"))
        die("/tmp", strerror(errno));
}

// What one case leaves behind must not be the next one's memory and disk space.
static void renew_tmp(void) {
    if (chdir("/") || umount2("/tmp", MNT_DETACH))
        die("cannot renew /tmp", strerror(errno));
    fresh_tmp();
}

// What the host gives beside the job: programs, a kernel source, a disk. None of it is a must.
static void mount_shared(const char *job) {
    mkdir("/run/kdyno", 0755);
    if (!machine->share(job, "/run/kdyno") && errno != ENOENT)
        fprintf(stderr, "kdyno-guest: nothing shared: %s\n", strerror(errno));
    if (access(machine->disk, F_OK))
        return;
    mkdir("/run/disk", 0755);
    if (mount(machine->disk, "/run/disk", "ext4", MS_NODEV, NULL))
        fprintf(stderr, "kdyno-guest: the disk cannot be mounted: %s\n", strerror(errno));
    else if (chmod("/run/disk", 01777))
        fprintf(stderr, "kdyno-guest: /run/disk: %s\n", strerror(errno));
    unlink(machine->disk); // a file system in use is not to be changed behind the kernel's back
}

// The host's folders may hold device nodes, and their numbers would mean this kernel's devices:
// 4:1 is the channel. And what stands in /dev is every later case's too.
static void close_devices(void) {
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV, NULL))
        die("cannot keep devices out of /", strerror(errno));
    if (mount(NULL, "/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) && errno != EINVAL)
        die("cannot keep /dev as it is", strerror(errno));
}

// The kernel leaves to its first process the words of its command line that it does not know.
static void say_unknown(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        fprintf(stderr, "kdyno-guest: not known: %s\n", argv[i]);
    for (char **each = environ; *each; each++)
        if (strncmp(*each, "HOME=", 5) && strncmp(*each, "TERM=", 5))
            fprintf(stderr, "kdyno-guest: not known: %s\n", *each);
}

int verb_init(int argc, char **argv) {
    static struct job job;
    char error[1024];
    if (getpid() != 1) {
        fprintf(stderr, "kdyno-guest: init is for process 1 of a booted kernel\n");
        return EXIT_USAGE;
    }
    machine = machine_find(NULL);
    umask(022);
    may_mount("devtmpfs", "/dev", 0, "mode=0755");
    open_console();
    say_unknown(argc, argv);
    must_mount("proc", "/proc", NULL);
    may_mount("sysfs", "/sys", MS_NODEV, NULL);
    reboot(RB_DISABLE_CAD);
    harness_enter_guest();
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);

    const char *name = told("kdyno.machine"), *path = told("kdyno.job");
    const char *scheduler = told("kdyno.scheduler");
    const char *shift = told("kdyno.counts");
    if (shift)
        harness_count((unsigned)strtoul(shift, NULL, 10));
    const struct machine *row = machine_find(name);
    if (!row)
        die(name, "this guest knows no such machine (guest/machine.c)");
    machine = row;
    path = path ? path : "/tmp/kdyno.job";
    load_modules();
    if (told("kdyno.installed"))
        await_rest();
    int fd = open_channel();
    char *text = machine->take_job(path, fd, error, sizeof error);
    if (!text)
        die("no job", error);
    bool good = job_parse(&job, text);
    channel_open(fd, fd, job.nonce);
    explicit_bzero(job.nonce, sizeof job.nonce);
    if (!good) {
        channel_say("fatal", -1, job.error);
        die("bad job", job.error);
    }

    may_mount("devpts", "/dev/pts", 0, "ptmxmode=0666");
    may_mount("tmpfs", "/dev/shm", MS_NODEV, "mode=1777,size=15%");
    may_mount("tmpfs", "/run", MS_NODEV, "mode=0755,size=5%");
    mount_shared(path);
    close_devices();
    rights_close_helpers();
    fresh_tmp();
    loopback_up();
    sethostname("kdyno", 5);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_NOFILE, 65536);
    char *seed = told("kdyno.scatter");
    if (seed)
        session_scattered(scatter(strtoull(seed, NULL, 10)));
    tidy_environment();
    setsid();
    if (scheduler && !scheduler_load(scheduler, error, sizeof error)) {
        channel_say("fatal", -1, error);
        die("scheduler", error);
    }
    session_run(&job, renew_tmp);
    if (machine->channel_is_tty)
        tcdrain(fd);
    power_off();
}
