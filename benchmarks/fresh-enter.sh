# SPDX-License-Identifier: MIT
# Process 1 of namespaces of its own: makes the root ready and moves into it. See fresh.py.
folder=$1 repository=$2 person=$3 home=$4 checkout=$5 cache=$6
shift 6
root=$folder/root

mount -o loop "$folder/disk" "$root"
rm "$folder/disk"
tar -C "$root" --numeric-owner -xf "$folder/root.tar"
cp -r "$folder/carry/." "$root"
cp "$folder/variables" "$folder/within" "$root"
echo "dyno ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/dyno"
chroot "$root" useradd --create-home --shell /bin/bash dyno
cp -r "$folder/home/." "$root$home"
git -c safe.directory='*' clone -q --no-hardlinks "$repository" "$root$checkout"
mkdir -p "$root$home/.cache/kdyno"
if [ -n "$cache" ]; then
    mkdir "$root/overlay" "$root/overlay/upper" "$root/overlay/work"
    over="lowerdir=$cache,upperdir=$root/overlay/upper,workdir=$root/overlay/work,metacopy=on"
    mount -t overlay -o "$over" overlay "$root$home/.cache/kdyno"
fi
if [ "$person" = user ]; then
    chroot "$root" chown -R dyno:dyno "$home" "$checkout"
fi

cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=755 dev dev
for name in null zero full random urandom tty fuse; do
    [ -e "/dev/$name" ] || continue
    : >"dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mkdir old
pivot_root . old
cd /
umount -l old
rmdir old
exec sh -u /within "$person" "$checkout" "$@"
