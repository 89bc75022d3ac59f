#!/bin/sh
# Prints a folder in memory for the databases of tests, or nothing if there isn't plenty of it:
# each test makes a database of 300 files and removes it, and file systems on a disk take long to
# make files where many were just removed.
folder=/dev/shm
room=8388608 # KiB of the folder
free=12582912 # KiB of memory
limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null)
case $limit in
'' | max) ;;
*) [ "$((limit / 1024))" -ge "$free" ] || exit 0 ;;
esac
[ -w "$folder" ] || exit 0
[ "$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')" -ge "$room" ] || exit 0
[ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -ge "$free" ] || exit 0
echo "$folder"
