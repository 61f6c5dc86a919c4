// SPDX-License-Identifier: MIT
#include "rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) (UINT64_C(1) << (capability))

// Those of files, of other users and of a process's own size and turn: without them a program
// would take other ways through the kernel than root's. None of them reaches the first process,
// a device or a mount.
static const uint64_t kept = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) |
                             BIT(CAP_FSETID) | BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) |
                             BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_NICE) |
                             BIT(CAP_SYS_RESOURCE);

const char *rights_reduce(void) {
    static char why[128];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        snprintf(why, sizeof why, "no_new_privs: %s", strerror(errno));
        return why;
    }
    // As many as this kernel knows, which may be more than the headers name.
    for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if (!(kept & BIT(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0)) {
            snprintf(why, sizeof why, "the bounding set: %s", strerror(errno));
            return why;
        }
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct both[2] = {
        {.effective = (uint32_t)kept, .permitted = (uint32_t)kept},
        {.effective = (uint32_t)(kept >> 32), .permitted = (uint32_t)(kept >> 32)},
    };
    // A kernel for a single user has no capabilities, and nobody in it can be kept from anything.
    if (syscall(SYS_capset, &header, both) && errno != ENOSYS) {
        snprintf(why, sizeof why, "capset: %s", strerror(errno));
        return why;
    }
    return NULL;
}

void rights_close_helpers(void) {
    static const char *const sets[] = {"bset", "inheritable"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/sys/kernel/usermodehelper/%s", sets[i]);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            continue; // a kernel without sysctl
        if (write(fd, "0 0", 3) != 3)
            fprintf(stderr, "kdyno-guest: %s: %s\n", path, strerror(errno));
        close(fd);
    }
}
