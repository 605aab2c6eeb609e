// SPDX-License-Identifier: Apache-2.0
// without_network COMMAND...: runs a command that the kernel kills (SIGSYS), with its children, on
// the first attempt to create a socket. Exit code 77 if the kernel accepts no such filter.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL_CALL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(number), 0, 1), KILL

int main(int count, char **words) {
    struct sock_filter filter[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        KILL,
        LOAD(nr),
        KILL_CALL(SYS_socket),
        KILL_CALL(SYS_socketpair),
        KILL_CALL(SYS_connect),
        ALLOW,
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (count < 2) {
        fputs("usage: without_network COMMAND...\n", stderr);
        return 2;
    }
    if (ARCHITECTURE == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fputs("without_network: this kernel accepts no seccomp filter\n", stderr);
        return 77;
    }
    execvp(words[1], words + 1);
    perror(words[1]);
    return 2;
}
