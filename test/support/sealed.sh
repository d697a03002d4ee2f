#!/bin/sh
# sealed.sh ROOT IMAGE DATA NODE COMMAND...: runs a command as in a container of the image, in mounts of its own (unshare -m):
# as user 1000 without any right, in /data, on a root that nobody can write to, with IMAGE as /image and NODE, the folder
# of node, as /node. ROOT is an empty folder to build in.
set -eu
root=$1 image=$2 data=$3 node=$4
shift 4
chown -R 1000:1000 "$data"
mount --make-rprivate /
mount -t tmpfs -o mode=755 none "$root"
readonly_mount() {
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  mount -o remount,bind,ro "$root$2"
}
for folder in /usr /bin /sbin /lib /lib64 /etc; do
  if [ -L "$folder" ]; then
    cp -P "$folder" "$root$folder"
  elif [ -d "$folder" ]; then
    readonly_mount "$folder" "$folder"
  fi
done
readonly_mount "$image" /image
readonly_mount "$node" /node
mkdir "$root/data" "$root/proc" "$root/dev" "$root/sys" "$root/tmp"
mount --bind "$data" "$root/data"
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
  sh -c 'cd /data && exec "$@"' sealed "$@"
