// SPDX-License-Identifier: Apache-2.0
// Malicious pickles cannot start a process, open a file or a socket. Each is read, at every level
// of trust and in both layouts, by a child process under a seccomp filter that allows it to open
// that file for reading, to read it and to manage memory, and kills it for anything else. The first
// test checks that the filter kills. Skipped without seccomp.
#include "format/pickles.h"
#include "format/torch/torch.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif
#define SKIPPED 99 // a child's exit code: the kernel accepts no filter

// --- the child ----------------------------------------------------------------------------------

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define LOAD_OFFSET(address) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(address))
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, (skip))
#define ALLOW_CALL(number) UNLESS(number, 1), ALLOW
#define ARGUMENT(index) (offsetof(struct seccomp_data, args) + 8 * (index))

// From now on the process may only open the file `path`, for reading.
static int install_filter(const char *path) {
    uint64_t address = (uint64_t)(uintptr_t)path;
    struct sock_filter filter[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        KILL,
        LOAD(nr),
        UNLESS(SYS_openat, 8),
        LOAD_OFFSET(ARGUMENT(1)),
        UNLESS(address & UINT32_MAX, 5),
        LOAD_OFFSET(ARGUMENT(1) + 4),
        UNLESS(address >> 32, 3),
        LOAD_OFFSET(ARGUMENT(2)),
        UNLESS(O_RDONLY | O_NONBLOCK | O_CLOEXEC, 1),
        ALLOW,
        KILL,
        ALLOW_CALL(SYS_read),
        ALLOW_CALL(SYS_pread64),
        ALLOW_CALL(SYS_close),
        ALLOW_CALL(SYS_fstat),
#ifdef SYS_newfstatat
        ALLOW_CALL(SYS_newfstatat),
#endif
        ALLOW_CALL(SYS_brk),
        ALLOW_CALL(SYS_mmap),
        ALLOW_CALL(SYS_munmap),
        ALLOW_CALL(SYS_mremap),
        ALLOW_CALL(SYS_madvise),
        ALLOW_CALL(SYS_futex),
        ALLOW_CALL(SYS_sigaltstack), // AddressSanitizer
        ALLOW_CALL(SYS_exit_group),
        KILL,
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return ARCHITECTURE != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The wait status of a child that ran `act` under the filter.
static int run_filtered(int (*act)(const char *path, int argument), const char *path,
                        int argument) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(install_filter(path) ? act(path, argument) : SKIPPED);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        print_message("skipped: this kernel accepts no seccomp filter\n");
        skip();
    }
    return status;
}

// --- must be killed -----------------------------------------------------------------------------

static int do_fork(const char *path, int argument) {
    (void)path, (void)argument;
    return fork() == 0 ? 0 : 1;
}

static int do_execute(const char *path, int argument) {
    (void)path, (void)argument;
    return execl("/bin/true", "true", (char *)NULL);
}

static int do_socket(const char *path, int argument) {
    (void)path, (void)argument;
    return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static int do_open_other(const char *path, int argument) {
    (void)path, (void)argument;
    return open("/dev/null", O_RDONLY | O_CLOEXEC) < 0;
}

static int do_open_for_writing(const char *path, int argument) {
    (void)argument;
    return open(path, O_RDWR | O_CLOEXEC) < 0;
}

static int do_remove(const char *path, int argument) {
    (void)argument;
    return unlink(path);
}

static int do_open_allowed(const char *path, int argument) {
    (void)argument;
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) < 0;
}

static void test_the_filter_kills(void **state) {
    (void)state;
    static int (*const forbidden[])(const char *, int) = {
        do_fork, do_execute, do_socket, do_open_other, do_open_for_writing, do_remove};
    char path[512];
    scratch_write("a.pt", "x");
    snprintf(path, sizeof path, "%s", scratch("a.pt"));
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        int status = run_filtered(forbidden[i], path, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    }
    int status = run_filtered(do_open_allowed, path, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(file_exists(path));
}

// --- must survive -------------------------------------------------------------------------------

#define SYSTEM "cposix\nsystem\n"
#define COMMAND TEXT("\x0c", "touch hacked")

static const struct {
    struct raw pickle;
    int least_trust; // the least trust at which the file opens; 9: at none
} attacks[] = {
    {RAW(PROTO SYSTEM COMMAND "\x85R."), PICKLE_CALLS},
    {RAW(PROTO "cos\nsystem\n(" COMMAND "tR."), PICKLE_CALLS},
    {RAW(PROTO "cbuiltins\neval\n" TEXT("\x03", "1/0") "\x85R."), PICKLE_CALLS},
    {RAW(PROTO "cbuiltins\nexec\n" TEXT("\x03", "1/0") "\x85R."), PICKLE_CALLS},
    {RAW(PROTO "c__builtin__\nopen\n" TEXT("\x06", "hacked") TEXT("\1", "w") "\x86R."),
     PICKLE_CALLS},
    {RAW(PROTO "csubprocess\nPopen\n" TEXT("\4", "true") "\x85R."), PICKLE_CALLS},
    {RAW(PROTO "csubprocess\nPopen\n" TEXT("\4", "true") "\x85\x81."), PICKLE_OBJECTS},
    {RAW(PROTO "csocket\nsocket\n)R."), PICKLE_CALLS},
    {RAW(PROTO "csocket\nsocket\n)\x81."), PICKLE_OBJECTS},
    {RAW(PROTO "ctorch\nload\n" TEXT("\x06", "/dev/x") "\x85R."), PICKLE_CALLS},
    {RAW(PROTO "ctorch.hub\nload\n)R."), PICKLE_CALLS},
    {RAW(PROTO "cwebbrowser\nopen\n" TEXT("\x06", "http:/") "\x85R."), PICKLE_CALLS},
    {RAW(PROTO "cnumpy.testing._private.utils\nrunstring\n)R."), PICKLE_CALLS},
    {RAW(PROTO "cfunctools\npartial\n" SYSTEM "\x85R" COMMAND "\x85R."), PICKLE_CALLS},
    {RAW(PROTO "cargparse\nNamespace\n)\x81}U\1a" SYSTEM COMMAND "\x85Rsb."), PICKLE_CALLS},
    {RAW(PROTO "cargparse\nNamespace\n)\x81" SYSTEM "b."), PICKLE_OBJECTS},
    {RAW(PROTO "ccollections\nOrderedDict\n)R" SYSTEM COMMAND "\x85Rb."), PICKLE_CALLS},
    {RAW(PROTO "ccollections\ndefaultdict\n" SYSTEM "\x85RU\1ah\0s."), 9},
    {RAW(PROTO "ccollections\ndefaultdict\n" SYSTEM "\x85R."), PICKLE_OBJECTS},
    {RAW(PROTO "}U\1a" SYSTEM COMMAND "\x85Rs."), PICKLE_CALLS},
    {RAW(PROTO "]" SYSTEM COMMAND "\x85Ra."), PICKLE_CALLS},
    {RAW(PROTO SYSTEM "."), PICKLE_OBJECTS},
    {RAW(PROTO "(S'touch hacked'\niposix\nsystem\n."), 9}, // INST
    {RAW(PROTO "(" COMMAND "iposix\nsystem\n."), 9},       // INST
    {RAW(PROTO "(" SYSTEM COMMAND "o."), 9},               // OBJ
    {RAW(PROTO TEXT("\5", "posix") TEXT("\6", "system") "\x93" COMMAND "\x85R."), PICKLE_CALLS},
    {RAW("\x80\4\x8c\5posix\x8c\6system\x93\x8c\4true\x85R."), PICKLE_CALLS}, // protocol 4
    {RAW("\x80\4\x8c\5posix\x8c\6system\x93)}\x92."), 9},                     // NEWOBJ_EX
    {RAW("cposix\nsystem\n(S'true'\ntR."), 9},                                // protocol 0
    {RAW(PROTO "\x82\1."), 9},                                                // EXT1
    {RAW(PROTO "\x83\1\0."), 9},                                              // EXT2
    {RAW(PROTO "\x84\1\0\0\0."), 9},                                          // EXT4
    {RAW(PROTO "\x84\1\0\0\0)R."), 9},
    {RAW(PROTO "ccopyreg\n_extension_registry\nU\1aK\1s."), 9},
    {RAW(PROTO "Pposix.system\n."), 9}, // PERSID
    {RAW(PROTO SYSTEM "Q."), 9},        // ids of wrong types
    {RAW(PROTO "(" TEXT("\6", "module") SYSTEM TEXT("\1", "0") TEXT("\3", "cpu") "K\1tQ."), 9},
    {RAW(PROTO "(" TEXT("\7", "storage") SYSTEM TEXT("\1", "0") TEXT("\3", "cpu") "K\1tQ."), 9},
    {RAW(PROTO
         "(" TEXT("\7", "storage") "ctorch\nFloatStorage\n" SYSTEM TEXT("\3", "cpu") "K\1tQ."),
     9},
    {RAW(PROTO TENSOR(SYSTEM, "K\0", ")", ")") "."), 9},
    {RAW(PROTO "ctorch._utils\n_rebuild_parameter\n" SYSTEM "\x85R."), 9},
    {RAW(PROTO "ctorch\nSize\n" SYSTEM "\x85R."), 9},
    {RAW(PROTO "ctorch\nFloatStorage\nU\1x\x85R."), PICKLE_CALLS},
    {RAW(PROTO "c..\n..\n)R."), PICKLE_CALLS},
    {RAW(PROTO "cos.path\n../../x\n)R."), PICKLE_CALLS},
    {RAW(PROTO SYSTEM COMMAND "\x85R0N."), 9}, // a call whose result is discarded
    {RAW(PROTO "]q\0h\0a."), 9},               // a list that contains itself
    {RAW(PROTO "Nr\xff\xff\x0f\0."), 9},
    {RAW(PROTO "X\xff\xff\xff\x7f"
               "abc."),
     9},
    {RAW(PROTO "\x8a\xff"
               "abc."),
     9},
};

static int do_read(const char *path, int trust) {
    struct torch_file file;
    enum berth_status status = torch_open(&file, path, (enum pickle_trust)trust, NULL);
    for (size_t i = 0; i < file.count; i++) {
        char first;
        torch_read(&file, &file.entries[i], 0, 1, &first, NULL);
    }
    torch_close(&file);
    return status == BERTH_OK ? 0 : status == BERTH_BAD_DATA ? 1 : 2;
}

static void assert_outcome(size_t attack, int trust) {
    char path[512];
    snprintf(path, sizeof path, "%s", scratch("a.pt"));
    int status = run_filtered(do_read, path, trust);
    if (WIFSIGNALED(status)) {
        fail_msg("attack %zu, trust %d: killed by signal %d", attack, trust, WTERMSIG(status));
    }
    if (WEXITSTATUS(status) != (trust < attacks[attack].least_trust)) {
        fail_msg("attack %zu, trust %d: outcome %d", attack, trust, WEXITSTATUS(status));
    }
}

static void test_attacks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        for (int trust = PICKLE_KNOWN_NAMES; trust <= PICKLE_CALLS; trust++) {
            write_zip("a.pt", attacks[i].pickle, (struct raw)RAW("\0\0\0\0"));
            assert_outcome(i, trust);
            write_legacy("a.pt", attacks[i].pickle, NO_KEYS, NO_STORAGES);
            assert_outcome(i, trust);
        }
        assert_false(file_exists("hacked"));
    }
}

// The same child can read a valid file and its numbers: the filter does not refuse everything.
static int do_read_good(const char *path, int argument) {
    struct torch_file file;
    float numbers[2] = {0, 0};
    (void)argument;
    return torch_open(&file, path, PICKLE_KNOWN_NAMES, NULL) != BERTH_OK || file.count != 1 ||
           torch_read(&file, file.entries, 0, sizeof numbers, numbers, NULL) != BERTH_OK ||
           numbers[1] != 1;
}

static void test_a_good_file_is_read(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", scratch("a.pt"));
    write_zip("a.pt", (struct raw)RAW(PROTO TENSOR(FLOATS("\2"), "K\0", "K\2\x85", "K\1\x85") "."),
              (struct raw)RAW("\0\0\0\0\0\0\x80\x3f"));
    int status = run_filtered(do_read_good, path, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_the_filter_kills),
        SCRATCH_TEST(test_a_good_file_is_read),
        SCRATCH_TEST(test_attacks),
    };
    return cmocka_run_group_tests_name("torch_hostile", tests, NULL, NULL);
}
