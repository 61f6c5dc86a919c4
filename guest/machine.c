// SPDX-License-Identifier: MIT
#include "machine.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job.h"

// The root is mounted read-only as a rule; the folder of the job file may be writable behind it.
static void remove_file(const char *path) {
    if (!unlink(path) || errno != EROFS)
        return;
    if (!mount(NULL, "/", NULL, MS_REMOUNT, NULL)) {
        unlink(path);
        mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
    }
}

static char *take_file(const char *path, int channel, char *error, size_t size) {
    (void)channel;
    char *text = job_read(path, error, size);
    if (text)
        remove_file(path);
    return text;
}

// The host's folder beside the job file.
static bool share_hostfs(const char *path, const char *at) {
    char from[4200];
    const char *slash = strrchr(path, '/');
    snprintf(from, sizeof from, "%.*s/shared", slash ? (int)(slash - path) : 0, path);
    return !mount("shared", at, "hostfs", MS_RDONLY | MS_NODEV, from);
}

// What lies below `from` is seen in the root as well: the folders of the host's programs.
static bool bind_host(const char *from) {
    DIR *dir = opendir(from);
    if (!dir)
        return errno == ENOENT; // no case starts any
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(dir));) {
        char source[512], place[300];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(place, sizeof place, "/%s", entry->d_name);
        mkdir(place, 0755);
        good = !mount(source, place, NULL, MS_BIND | MS_REC, NULL);
    }
    closedir(dir);
    return good;
}

// By virtio, under this name; the kernel says ENOENT where QEMU was given no such folder. Nothing
// changes there while the guest is alive, so what was read once is kept: a case is to meet the
// host's files in memory.
static bool share_9p(const char *path, const char *at) {
    (void)path;
    if (mount("shared", at, "9p", MS_RDONLY | MS_NODEV,
              "trans=virtio,version=9p2000.L,cache=loose,msize=262144"))
        return false;
    char host[256];
    snprintf(host, sizeof host, "%s/host", at);
    return bind_host(host);
}

static const struct machine machines[] = {
    {
        .name = "uml",
        .take_job = take_file,
        .channel = "/dev/tty1",
        .channel_asks = "the command line needs con1=fd:N",
        .channel_is_tty = true,
        .disk = "/dev/ubda",
        .share = share_hostfs,
        .ends_by = RB_POWER_OFF,
    },
    {
        .name = "qemu",
        .take_job = take_file, // in the initramfs, which is this guest's memory
        .channel = "/dev/hvc0",
        .channel_asks = "QEMU wants a virtconsole, the kernel CONFIG_VIRTIO_CONSOLE",
        .channel_is_tty = true,
        .disk = "/dev/vda",
        .share = share_9p,
        .ends_by = RB_AUTOBOOT, // its machine has no switch; QEMU is told not to boot again
    },
};

const struct machine *machine_find(const char *name) {
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (!name || !strcmp(machines[i].name, name))
            return &machines[i];
    return NULL;
}
