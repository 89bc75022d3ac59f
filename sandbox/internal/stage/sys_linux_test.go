package stage

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestConstantsAreTheKernels(t *testing.T) {
	for name, pair := range map[string][2]int{
		"open_tree":           {sysOpenTree, unix.SYS_OPEN_TREE},
		"move_mount":          {sysMoveMount, unix.SYS_MOVE_MOUNT},
		"mount_setattr":       {sysMountSetattr, unix.SYS_MOUNT_SETATTR},
		"create_ruleset":      {sysCreateRuleset, unix.SYS_LANDLOCK_CREATE_RULESET},
		"add_rule":            {sysAddRule, unix.SYS_LANDLOCK_ADD_RULE},
		"restrict_self":       {sysRestrictSelf, unix.SYS_LANDLOCK_RESTRICT_SELF},
		"OPEN_TREE_CLONE":     {openTreeClone, unix.OPEN_TREE_CLONE},
		"OPEN_TREE_CLOEXEC":   {openTreeCloexec, unix.OPEN_TREE_CLOEXEC},
		"AT_FDCWD":            {atFdcwd, unix.AT_FDCWD},
		"AT_EMPTY_PATH":       {atEmptyPath, unix.AT_EMPTY_PATH},
		"AT_RECURSIVE":        {atRecursive, unix.AT_RECURSIVE},
		"AT_SYMLINK_NOFOLLOW": {atNoFollow, unix.AT_SYMLINK_NOFOLLOW},
		"MOVE_MOUNT_T_EMPTY":  {moveOntoEmptyPath, unix.MOVE_MOUNT_T_EMPTY_PATH},
		"openat2":             {sysOpenat2, unix.SYS_OPENAT2},
		"NO_SYMLINKS":         {resolveNoSymlinks, unix.RESOLVE_NO_SYMLINKS},
		"SET_MODE_FILTER":     {seccompSetFilter, unix.SECCOMP_SET_MODE_FILTER},
		"NEW_LISTENER":        {seccompListener, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER},
		"KILLABLE_RECV":       {seccompKillable, unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV},
		"NOTIF_RECV":          {notifReceive, unix.SECCOMP_IOCTL_NOTIF_RECV},
		"NOTIF_SEND":          {notifSend, unix.SECCOMP_IOCTL_NOTIF_SEND},
		"NOTIF_SET_FLAGS":     {notifSetFlags, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS},
		"SYNC_WAKE_UP":        {notifSyncWakeUp, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP},
		"NOTIF_CONTINUE":      {notifContinue, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE},
		"MOVE_MOUNT_F_EMPTY":  {moveEmptyPath, unix.MOVE_MOUNT_F_EMPTY_PATH},
		"RDONLY":              {attrReadOnly, unix.MOUNT_ATTR_RDONLY},
		"NOSUID":              {attrNoSuid, unix.MOUNT_ATTR_NOSUID},
		"NODEV":               {attrNoDev, unix.MOUNT_ATTR_NODEV},
		"NOEXEC":              {attrNoExec, unix.MOUNT_ATTR_NOEXEC},
		"SET_DUMPABLE":        {prSetDumpable, unix.PR_SET_DUMPABLE},
		"SET_SECCOMP":         {prSetSeccomp, unix.PR_SET_SECCOMP},
		"CAPBSET_DROP":        {prCapbsetDrop, unix.PR_CAPBSET_DROP},
		"SET_SECUREBITS":      {prSetSecurebits, unix.PR_SET_SECUREBITS},
		"SET_CHILD_SUBREAPER": {prSetSubreaper, unix.PR_SET_CHILD_SUBREAPER},
		"SET_NO_NEW_PRIVS":    {prSetNoNewPrivs, unix.PR_SET_NO_NEW_PRIVS},
		"CAP_AMBIENT":         {prCapAmbient, unix.PR_CAP_AMBIENT},
		"CLEAR_ALL":           {prAmbientClear, unix.PR_CAP_AMBIENT_CLEAR_ALL},
		"clone3":              {sysClone3, unix.SYS_CLONE3},
		"close_range":         {sysCloseRange, unix.SYS_CLOSE_RANGE},
		"CLOSE_RANGE_CLOEXEC": {closeRangeCloexec, unix.CLOSE_RANGE_CLOEXEC},
		"INTO_CGROUP":         {cloneIntoCgroup, unix.CLONE_INTO_CGROUP},
		"SIG_BLOCK":           {sigBlock, unix.SIG_BLOCK},
		"SIG_SETMASK":         {sigSetMask, unix.SIG_SETMASK},
		"MODE_FILTER":         {seccompFilterMode, unix.SECCOMP_MODE_FILTER},
		"CAPABILITY_VERSION":  {capVersion3, unix.LINUX_CAPABILITY_VERSION_3},
		"PATH_BENEATH":        {rulePathBeneath, unix.LANDLOCK_RULE_PATH_BENEATH},
		"O_PATH":              {oPath, unix.O_PATH},
		"POLLIN":              {pollIn, unix.POLLIN},
		"EXECUTE":             {rightExecute, unix.LANDLOCK_ACCESS_FS_EXECUTE},
		"WRITE_FILE":          {rightWriteFile, unix.LANDLOCK_ACCESS_FS_WRITE_FILE},
		"READ_FILE":           {rightReadFile, unix.LANDLOCK_ACCESS_FS_READ_FILE},
		"TRUNCATE":            {rightTruncate, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
		"IOCTL_DEV":           {rightIoctlDev, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		"RESOLVE_UNIX":        {rightResolveUnix, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %#x, not %#x", name, pair[1], pair[0])
		}
	}
}
