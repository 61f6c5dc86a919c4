# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2154  # $room, the folder of ours on the box, is set by examination.py
#
# What runs on a box: POSIX shell, as root. examination.py sends it with the call of one function.

PATH=$PATH:/usr/sbin:/sbin
unit=/etc/systemd/system/kdyno-return.service
way_back=/etc/systemd/system/kdyno-return.sh
wants=/etc/systemd/system/sysinit.target.wants
manager=/etc/systemd/system.conf.d

say() { printf '%s\t%s\n' "$1" "$(printf %s "$2" | tr '\n\t' '  ' | cut -c1-2000)"; }
has() { command -v "$1" >/dev/null 2>&1 && echo "$1"; }
# Whether the watchdog stops on the way into the next kernel, and its drivers, if they are modules.
stops() { [ "$(cat /sys/module/watchdog/parameters/stop_on_reboot 2>/dev/null)" = -1 ]; }
drivers() { lsmod | sed -n 's/^watchdog .* //p' | tr , ' '; }

facts() {
    say arch "$(uname -m)"
    say release "$(uname -r)"
    say cpus "$(cat /sys/devices/system/cpu/online)"
    say cpu_model "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    say cpu_microcode "$(sed -n 's/^microcode[^:]*: //p' /proc/cpuinfo | head -n 1)"
    say memory_kb "$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
    say machine_id "$(cat /etc/machine-id)"
    say systemd "$([ -d /run/systemd/system ] && systemctl --version | head -n 1)"
    say kexec "$(has kexec)"
    say kexec_disabled "$(cat /proc/sys/kernel/kexec_load_disabled)"
    say lockdown "$(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/kernel/security/lockdown 2>/dev/null)"
    say free_kb "$(df -Pk /var/lib | awk 'NR == 2 { print $4 }')"
    say generator "$(has mkinitramfs || has dracut)"
    say bwrap "$(bwrap --ro-bind / / --unshare-pid true 2>/dev/null && has bwrap)"
    # One in software dies with its kernel.
    say watchdog "$([ ! -e /dev/watchdog0 ] ||  # the one that systemd takes
        grep -qsx 'Software Watchdog' /sys/class/watchdog/watchdog0/identity ||
        echo /dev/watchdog0)"
    say watchdog_builtin "$([ -e /dev/watchdog0 ] && stops && [ -z "$(drivers)" ] && echo yes)"
    say pstore "$(grep -sv null /sys/module/pstore/parameters/backend)"
    say pmu "$(cd /sys/bus/event_source/devices && ls -d cpu cpu_core 2>/dev/null)"
    say governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
    say turbo "$(cat /sys/devices/system/cpu/cpufreq/boost 2>/dev/null ||
        sed 's/^0$/on/; s/^1$/off/' /sys/devices/system/cpu/intel_pstate/no_turbo 2>/dev/null)"
    say smt "$(cat /sys/devices/system/cpu/smt/control 2>/dev/null)"
}

# The kernel that the boot loader starts by itself, as far as its own files say.
default_kernel() {
    if cat /sys/firmware/efi/efivars/LoaderInfo-* 2>/dev/null | tr -d '\0' | grep -q systemd-boot
    then
        timeout 10 bootctl status |
            sed -n -e '/^Default Boot Loader Entry/,$ s/^ *linux: //p' \
                -e '/^Default Boot Loader Entry/,$ s/^ *uki: //p' | head -n 1
        return
    fi
    timeout 10 grubby --default-kernel | grep . && return
    for folder in /boot/grub /boot/grub2; do
        [ -r "$folder/grub.cfg" ] || continue
        entry=$(sed -n 's/^ *set default="\(.*\)"$/\1/p' "$folder/grub.cfg" | tail -n 1)
        # On btrfs a part of it lies outside the file.
        environment=$(grub2-editenv - list || grub-editenv - list || cat "$folder/grubenv")
        # It will start another one once.
        echo "$environment" | grep -q '^next_entry=.' && return
        # shellcheck disable=SC2016  # the words of GRUB's own language
        [ "$entry" != '${saved_entry}' ] ||
            entry=$(echo "$environment" | sed -n 's/^saved_entry=//p')
        # Of a submenu's entry the last word: "Advanced options>Debian, with Linux 6.1".
        case $entry in *'>'[0-9]*) return ;; esac
        entry=${entry##*>} awk -v quote="'" '
            BEGIN { entry = ENVIRON["entry"]; first = entry == "" || entry == "0" }
            /^[ \t]*menuentry / {
                named = index($0, quote entry quote) || index($0, "\"" entry "\"")
                chosen = first ? entries++ == 0 : named
            }
            chosen && $1 ~ /^linux/ { print $2; exit }' "$folder/grub.cfg"
        return
    done
}

# Of which package the running kernel is; nothing where none of the three can be asked.
package() {
    for modules in "/lib/modules/$(uname -r)" "/usr/lib/modules/$(uname -r)"; do
        for question in 'dpkg -S' 'rpm -qf' 'pacman -Qoq'; do
            command -v "${question%% *}" >/dev/null || continue
            # shellcheck disable=SC2086  # two words on purpose
            owner=$(timeout 10 $question "$modules") && { echo "$owner" | head -n 1; return; }
            [ $? = 124 ] || owner=none
        done
    done
    echo "$owner"
}

# What only doctor asks for: it takes seconds.
surroundings() {
    exec 2>/dev/null
    say default_kernel "$(default_kernel)"
    say booted "$(sed -n 's/.*BOOT_IMAGE=\([^ ]*\).*/\1/p' /proc/cmdline)"
    say package "$(package)"
    say timers "$(systemctl list-units --no-legend --plain --state=active '*.timer' | wc -l)"
    say services "$(systemctl list-units --no-legend --plain --state=running '*.service' |
        sed -n 's/\.service .*//p' |
        grep -vE '^(systemd-|dbus|polkit|ssh|(serial-)?getty@|user@|udev)')"
}

# Take the box: $1 is the name of its owner, $2 the part of it that is one kdyno's. While another
# one works the owner's file is young, or its time is yet to come.
own() {
    set -e
    [ -d "$room" ] || trap '[ $? = 0 ] || { cd /; rm -rf "$room"; }' EXIT  # the disk may be full
    mkdir -p "$room/images"; cd "$room"
    # Of two that come at once one creates it.
    if ! (set -C; : >owner) 2>/dev/null && [ -e owner ]; then
        trap - EXIT  # the folder is another's
        age=$(( $(date +%s) - $(stat -c %Y owner) ))
        [ "$age" -gt 1800 ] || [ "$(cut -d' ' -f1,2 owner)" = "$2" ] || {
            echo "another kdyno works there: $(cat owner). If it is dead, remove $room/owner" >&2
            exit 1
        }
    fi
    echo "$1" >"owner.$$"
    mv "owner.$$" owner
}

# Only where the box is nobody else's than that of $1.
ours() {
    owner=$(cat "$room/owner" 2>/dev/null)
    [ -z "$owner" ] || [ "$owner" = "$1" ] ||
        { echo "another kdyno has taken it: $owner" >&2; exit 3; }
}

# It stays that of $1 for $2 seconds and half an hour.
renew() { ours "$1"; touch -c -d "@$(( $(date +%s) + $2 ))" "$room/owner"; }

unlink_modules() { find /lib/modules -maxdepth 1 -type l -lname "$room/*" -delete; }

# Take away what is ours; $1 "keep": but for the folder.
undo() {
    systemctl stop kdyno-return.service 2>/dev/null
    unlink_modules
    rm -f "$unit" "$way_back" "$wants/kdyno-return.service" /run/modprobe.d/kdyno.conf
    [ "$(cat /sys/kernel/kexec_loaded)" = 0 ] || kexec -u
    [ "$1" = keep ] || rm -rf "$room"
    if [ -e "$manager/kdyno.conf" ]; then
        rm -f "$manager/kdyno.conf"
        rmdir --ignore-fail-on-non-empty "$manager"
        systemctl daemon-reexec
    else
        systemctl daemon-reload
    fi
    ! ls -l /lib/modules | grep -F " -> $room/"
}

# What takes a kernel under test back to the box's own when nobody has come within $1 seconds, or
# comes no more. $2: of the watchdog over a kexec; empty: there is none. It lies beside its unit, as
# /var may be a file system that the kernel does not mount.
prepare_return() {
    set -e
    mkdir -p "$wants"
    { echo "room=$room"; cat; } >"$way_back" <<'END'
until=$1
while read -r now rest </proc/uptime; now=${now%%.*}
    [ -r /run/kdyno-until ] && read -r until </run/kdyno-until
    [ "$now" -lt "$until" ]
do sleep $(( until - now )); done
echo "$now" 2>/dev/null >"$room/returned"
sync
kexec -u
SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot
sleep 60
systemctl --force --force reboot
END
    cat >"$unit" <<END
[Unit]
Description=kdyno: back to this machine's own kernel when nobody comes
ConditionKernelCommandLine=kdyno.boot
DefaultDependencies=no
[Service]
ExecStart=/bin/sh $way_back $1
Restart=no
END
    ln -sf "$unit" "$wants/kdyno-return.service"
    if [ -n "$2" ]; then
        # Every kernel that boots from now on has it, so that no boot waits for systemd to begin
        # anew.
        mkdir -p "$manager"
        printf '[Manager]\nKExecWatchdogSec=%s\n' "$2" >"$manager/kdyno.conf"
        systemctl daemon-reexec
    else
        systemctl daemon-reload
    fi
}

# Show the modules of the image $2 to its kernel, of the version $1. The box's own modules of the
# same version are used where they are the same files.
modules() {
    set -e
    version=$1 ours=$room/images/$2/modules
    unlink_modules
    [ -d "$ours" ] || exit 0
    if [ -e "/lib/modules/$version" ]; then
        (cd "$ours" && find . -name '*.ko*' -type f -exec sha256sum {} +) |
            (cd "/lib/modules/$version" && sha256sum -c --ignore-missing --status) ||
            { echo "the box has other modules of its own for $version" >&2; exit 1; }
    else
        ln -s "$ours" "/lib/modules/$version"
    fi
}

# The initramfs of the image $2, whose kernel has the version $1, by $3: mkinitramfs or dracut.
# mkinitramfs reads the kernel's configuration in /boot, so it sees a /boot of its own.
initramfs() {
    set -e
    cd "$room/images/$2"
    [ -e initrd ] || [ ! -d modules ] || {
        # The box's own kernel has the one that the box boots it with.
        for own in "/boot/initrd.img-$1" "/boot/initramfs-$1.img"; do
            [ -e initrd ] || [ -L "/lib/modules/$1" ] || ! cmp -s vmlinuz "/boot/vmlinuz-$1" ||
                [ ! -e "$own" ] || cp "$own" initrd
        done
    }
    [ -e initrd ] || [ ! -d modules ] || {
        depmod "$1"
        case $3 in
        mkinitramfs) mkdir -p boot; cp config "boot/config-$1"
            unshare --mount sh -ec 'mount --bind boot /boot; mkinitramfs -o initrd.part "$1"' \
                sh "$1" ;;
        dracut) dracut --force --quiet initrd.part "$1" ;;
        esac
        mv initrd.part initrd
    } >&2
    touch ready
}

# Load the kernel of the image $1 with the command line $2; $3 is not empty where a watchdog is to
# go on over the kexec. $4: the owner's name.
load() {
    ours "$4"
    cd "$room/images/$1" || exit 1
    rm -f "$room/returned"; touch "$room/went"
    # A dead first process would neither say that it starts no kexec, nor start one.
    timeout 30 systemctl show --property=Version >/dev/null ||
        { echo "systemd is dead" >&2; exit 1; }
    # Most drivers stop the watchdog on the way into the next kernel. Those of kernels under test
    # are told not to by a word of their command line; the box's own are loaded anew for it.
    if [ -n "$3" ] && stops; then
        mkdir -p /run/modprobe.d
        echo 'options watchdog stop_on_reboot=0' >/run/modprobe.d/kdyno.conf
        drivers=$(drivers)
        # shellcheck disable=SC2086  # words on purpose
        [ -z "$drivers" ] || { modprobe -r $drivers watchdog; modprobe -a $drivers; }
    fi
    sync
    # The check of the loaded kernel's sums is for kernels that a panic starts; an emulated CPU
    # takes seconds for it.
    # shellcheck disable=SC2046  # no word or one
    kexec -l --no-checks vmlinuz $([ -e initrd ] && echo --initrd=initrd) --command-line="$2" ||
        exit 1
}

# By `systemctl $1`, kexec or reboot, behind this command's end, so that ssh has its status. With a
# kernel loaded newer versions of systemd take a reboot for a kexec.
go() {
    [ "$1" != reboot ] || kexec -u 2>/dev/null
    systemd-run --quiet --collect --on-active=300ms --timer-property=AccuracySec=50ms \
        --setenv=SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl "$1"
}

# What the box kept of a kernel under test that is not there any more.
last_words() {
    [ -e "$room/returned" ] && echo "returned $(cat "$room/returned")"
    for file in /sys/class/watchdog/watchdog*/bootstatus; do
        [ "$(cat "$file" 2>/dev/null || echo 0)" = 0 ] || echo "watchdog"
    done
    echo "pstore $(cat /sys/module/pstore/parameters/backend 2>/dev/null)"
    find /sys/fs/pstore /var/lib/systemd/pstore -name '*dmesg*' -type f -newer "$room/went" \
        -exec tail -c 20000 {} + 2>/dev/null | head -c 200000
}

# $3 into the files $2, as far as they are there; what that changed, called $1.
set_all() {
    for f in $2; do
        [ -w "$f" ] || continue
        old=$(cat "$f"); echo "$3" >"$f" 2>/dev/null; new=$(cat "$f")
        [ "$old" = "$new" ] || printf 'quiet_%s\t%s to %s\n' "$1" "$old" "$new"
    done | sort -u | head -n 1
}

# The CPUs that there are, before a job of $1 that ends within $2 seconds: until then the box does
# not go back by itself. $3 "quiet": without what disturbs it.
settle() {
    renew "$1" "$2"
    read -r now rest </proc/uptime
    echo $(( ${now%%.*} + $2 )) >/run/kdyno-until || exit 1
    # ssh answers while services still start. That one of them failed does not matter here.
    timeout 120 systemctl is-system-running --wait >/dev/null 2>&1
    if [ "$3" = quiet ]; then
        set_all smt /sys/devices/system/cpu/smt/control off
        set_all governor '/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor' performance
        set_all turbo /sys/devices/system/cpu/intel_pstate/no_turbo 1
        set_all boost /sys/devices/system/cpu/cpufreq/boost 0
        timers=$(systemctl list-units --no-legend --plain --state=active '*.timer' |
            cut -d' ' -f1)
        # shellcheck disable=SC2086  # words on purpose
        [ -z "$timers" ] || { systemctl stop $timers
            printf 'quiet_timers\t%s stopped\n' "$(echo $timers | wc -w)"; }
        # It would move the interrupts back.
        systemctl is-active --quiet irqbalance && systemctl stop irqbalance &&
            printf 'quiet_irqbalance\tstopped\n'
    fi
    printf 'cpus\t%s\n' "$(cat /sys/devices/system/cpu/online)"
    printf 'unknown\t%s\n' "$(dmesg | sed -n 's/.*Unknown kernel command line parameters "//p' |
        sed 's/", will be passed.*//')"
}

# Interrupts to the CPUs $1; how many.
away() {
    for f in /proc/irq/*/smp_affinity_list; do echo "$1" >"$f" 2>/dev/null && n=$((n + 1)); done
    echo "${n:-0}"
}

# A folder for cases on a disk, of the user $2, where more than $1 KB are free.
empty_folder() {
    set -e
    rm -rf "$room/disk"
    free=$(df -Pk "$room" | awk 'NR == 2 { print $4 }')
    [ "$free" -gt "$1" ] ||
        { echo "$free KB are free in $room, and the cases take $1" >&2; exit 1; }
    install -d -m 0700 -o "$2" -g "$2" "$room/disk"
}
