/* fake_decoder.c: stands in for inkjet-video. The "video" says what it does: all but the first byte are copied to the standard output, then
 * comes the deed that the first byte names. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int copy_input(void) {
  char bytes[4096];
  for (;;) {
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes), done = 0;
    if (n <= 0) return n == 0;
    while (done < n) {
      ssize_t k = write(STDOUT_FILENO, bytes + done, (size_t)(n - done));
      if (k <= 0) return 0;
      done += k;
    }
  }
}

int main(int argc, char **argv) {
  char deed;
  if (argc != 8 || strcmp(argv[1], "1") != 0) return 7;
  if (lseek(STDIN_FILENO, 0, SEEK_SET) != 0 || read(STDIN_FILENO, &deed, 1) != 1 || !copy_input()) return 8;
  switch (deed) {
    case 'x': return 0;
    case 'e': return 3;
    case 'k': raise(SIGKILL); break;
    case 'g':
      signal(SIGSEGV, SIG_DFL); /* a sanitizer would take it and end in its own way */
      raise(SIGSEGV);
      break;
    case 's': raise(SIGSTOP); break;
    case 'c': close(STDOUT_FILENO); break;
    case 'f': /* whatever descriptor came along is reported by its number */
      for (int fd = 3; fd < 256; fd++)
        if (lseek(fd, 0, SEEK_CUR) >= 0) return fd;
      return 0;
    default: break;
  }
  for (;;) pause();
}
