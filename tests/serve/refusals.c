// SPDX-License-Identifier: Apache-2.0
// Preloaded into the server: no thread can be started while the file that NO_THREADS names exists,
// and with NO_TLS libmicrohttpd has no TLS.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int creator(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                    void *context);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *context) {
    creator *create = (creator *)dlsym(RTLD_NEXT, "pthread_create");
    const char *file = getenv("NO_THREADS");
    return file != NULL && access(file, F_OK) == 0 ? EAGAIN
                                                   : create(thread, attributes, run, context);
}

// The server asks only about TLS.
int MHD_is_feature_supported(int feature);
int MHD_is_feature_supported(int feature) {
    (void)feature;
    return getenv("NO_TLS") == NULL;
}
