// SPDX-License-Identifier: Apache-2.0
// A small hub: serves a folder's files as the repository ORG/NAME, for tests that run the program.
//
//   serve_hub FOLDER ORG/NAME PORT_FILE LOG_FILE [hold|cut]
//
// Writes its port to PORT_FILE and, on SIGTERM, the requests to LOG_FILE. *.safetensors are large
// files: named by SHA-256 and reached through a redirect. `cut` ends the first transfer of one
// after 1000 bytes, `hold` pauses there until the end.
#include "format/checksum/digest.h"
#include "server.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMIT "00112233445566778899aabbccddeeff00112233"
#define FILES 16
#define ROUTES (3 * FILES + 4)

static struct server_route routes[ROUTES];
static size_t route_count;

static char *text(const char *format, const char *a, const char *b, const char *c) {
    char line[2048];
    snprintf(line, sizeof line, format, a, b, c);
    return strdup(line);
}

static void add_route(const struct server_route *route) {
    if (route_count < ROUTES) {
        routes[route_count++] = *route;
    }
}

static void *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    *length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*length + 1);
    if (fread(bytes, 1, *length, file) != *length) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return bytes;
}

static int is_large(const char *name) {
    const char *ending = strrchr(name, '.');
    return ending != NULL && strcmp(ending, ".safetensors") == 0;
}

// The first answer for a large file is a redirect to another path.
static void add_large(struct server_route *route, const char *sha256, const char *fault) {
    static struct server_route good;
    char *moved = text("/cdn/%s%s%s", sha256, "", "");
    struct server_route content = *route;
    content.path = moved;
    good = content;
    if (strcmp(fault, "cut") == 0) {
        content.cut_after = 1000;
        content.times = 1;
        content.then = &good;
    } else if (strcmp(fault, "hold") == 0) {
        content.hold_after = 1000;
    }
    add_route(&content);
    *route = (struct server_route){.path = route->path, .status = 302, .body = "", .length = 0};
    route->headers =
        text("Location: %s\r\nX-Linked-Etag: \"%s\"\r\nX-Repo-Commit: " COMMIT "\r\n%s", moved,
             sha256, "");
    add_route(route);
}

static void add_file(const char *folder, const char *id, const char *name, const char *fault,
                     char *listing) {
    char *path = text("%s/%s%s", folder, name, "");
    char git[DIGEST_HEX_SIZE], sha256[DIGEST_HEX_SIZE], size[32], entry[1024];
    struct server_route route = {.path = text("/%s/resolve/" COMMIT "/%s%s", id, name, "")};
    route.body = read_file(path, &route.length);
    if (digest_file(DIGEST_GIT_BLOB, path, git, NULL) != BERTH_OK ||
        digest_file(DIGEST_SHA256, path, sha256, NULL) != BERTH_OK) {
        exit(1);
    }
    snprintf(size, sizeof size, "%zu", route.length);
    int used = snprintf(entry, sizeof entry,
                        "%s{\"type\": \"file\", \"path\": \"%s\", \"oid\": \"%s\", \"size\": %s",
                        *listing == '\0' ? "" : ", ", name, git, size);
    if (is_large(name)) {
        snprintf(entry + used, sizeof entry - (size_t)used,
                 ", \"lfs\": {\"oid\": \"%s\", \"size\": %s, \"pointerSize\": 134}}", sha256, size);
        add_large(&route, sha256, fault);
    } else {
        snprintf(entry + used, sizeof entry - (size_t)used, "}");
        route.etag = text("\"%s\"%s%s", git, "", "");
        add_route(&route);
    }
    strcat(listing, entry);
    free(path);
}

static void add_api(const char *id, const char *listing) {
    static const char sha[] = "{\"sha\": \"" COMMIT "\"}";
    char *tree = malloc(strlen(listing) + 3);
    sprintf(tree, "[%s]", listing);
    add_route(&(struct server_route){.path = text("/api/models/%s/revision/main%s%s", id, "", ""),
                                     .type = "application/json",
                                     .body = sha,
                                     .length = sizeof sha - 1});
    add_route(&(struct server_route){
        .path = text("/api/models/%s/tree/" COMMIT "?recursive=true%s%s", id, "", ""),
        .type = "application/json",
        .body = tree,
        .length = strlen(tree)});
}

static void write_file(const char *path, const char *content) {
    char *temporary = text("%s.new%s%s", path, "", "");
    FILE *file = fopen(temporary, "w");
    if (file == NULL || fputs(content, file) < 0 || fclose(file) != 0 ||
        rename(temporary, path) != 0) {
        perror(path);
        exit(1);
    }
    free(temporary);
}

static void run(const char *port_file, const char *log_file) {
    char port[32];
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct server *server = server_start(routes, route_count);
    snprintf(port, sizeof port, "%d\n", server_port(server));
    write_file(port_file, port);
    int number;
    sigwait(&signals, &number);
    char *log = server_log(server);
    write_file(log_file, log);
    free(log);
    server_stop(server);
}

int main(int count, char **words) {
    if (count < 5) {
        fputs("usage: serve_hub FOLDER ORG/NAME PORT_FILE LOG_FILE [hold|cut]\n", stderr);
        return 2;
    }
    static char listing[FILES * 1024];
    DIR *folder = opendir(words[1]);
    struct dirent *entry;
    for (size_t files = 0; folder != NULL && (entry = readdir(folder)) != NULL && files < FILES;) {
        if (entry->d_name[0] != '.') {
            add_file(words[1], words[2], entry->d_name, count > 5 ? words[5] : "", listing);
            files++;
        }
    }
    if (folder == NULL) {
        perror(words[1]);
        return 1;
    }
    closedir(folder);
    add_api(words[2], listing);
    run(words[3], words[4]);
    return 0;
}
