package stage

// sysFstat fills a syscall.Stat_t. Linux has it here since 6.11, and package syscall
// doesn't name it.
const sysFstat = 80
