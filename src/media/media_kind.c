/* media_kind.c: the table of first bytes. Names of files play no part: they are often wrong, and a server gets none. */
#include "media/media_kind.h"

#include <string.h>

/* `first` at the start; then `second`, when it is not NULL, at byte `at`. */
typedef struct signature {
  const char *first;
  int n_first;
  int at;
  const char *second;
  int n_second;
  ij__file_kind kind;
} signature;

#define PICTURE(name, reader) {name, IJ_FILE_PICTURE, reader}
#define SOUND(name) {name, IJ_FILE_SOUND, NULL}
#define VIDEO(name) {name, IJ_FILE_VIDEO, NULL}
#define OTHER(name) {name, IJ_FILE_OTHER, NULL}

static const signature signatures[] = {
    {"\x89PNG\r\n\x1a\n", 8, 0, NULL, 0, PICTURE("PNG", ij__image_read_png)},
    {"\xff\xd8\xff", 3, 0, NULL, 0, PICTURE("JPEG", ij__image_read_jpeg)},
    {"RIFF", 4, 8, "WEBP", 4, PICTURE("WebP", ij__image_read_webp)},
    {"GIF87a", 6, 0, NULL, 0, PICTURE("GIF", ij__image_read_gif)},
    {"GIF89a", 6, 0, NULL, 0, PICTURE("GIF", ij__image_read_gif)},
    {"BM", 2, 6, "\0\0\0\0", 4, PICTURE("BMP", NULL)},
    {"II*\0", 4, 0, NULL, 0, PICTURE("TIFF", NULL)},
    {"MM\0*", 4, 0, NULL, 0, PICTURE("TIFF", NULL)},
    {"\0\0\1\0", 4, 0, NULL, 0, PICTURE("ICO", NULL)},
    {"8BPS", 4, 0, NULL, 0, PICTURE("Photoshop", NULL)},
    {"\xff\x0a", 2, 0, NULL, 0, PICTURE("JPEG XL", NULL)},
    {"\0\0\0\x0cJXL ", 8, 0, NULL, 0, PICTURE("JPEG XL", NULL)},
    {"\0\0\0\x0cjP  ", 8, 0, NULL, 0, PICTURE("JPEG 2000", NULL)},
    {"", 0, 4, "ftypavif", 8, PICTURE("AVIF", NULL)},
    {"", 0, 4, "ftypavis", 8, PICTURE("AVIF", NULL)},
    {"", 0, 4, "ftypheic", 8, PICTURE("HEIC", NULL)},
    {"", 0, 4, "ftypheix", 8, PICTURE("HEIC", NULL)},
    {"", 0, 4, "ftypmif1", 8, PICTURE("HEIF", NULL)},
    {"<svg", 4, 0, NULL, 0, PICTURE("SVG", NULL)},
    {"RIFF", 4, 8, "WAVE", 4, SOUND("WAV")},
    {"fLaC", 4, 0, NULL, 0, SOUND("FLAC")},
    {"OggS", 4, 0, NULL, 0, SOUND("Ogg")},
    {"ID3", 3, 0, NULL, 0, SOUND("MP3")},
    {"\xff\xfb", 2, 0, NULL, 0, SOUND("MP3")},
    {"\xff\xf3", 2, 0, NULL, 0, SOUND("MP3")},
    {"\xff\xf2", 2, 0, NULL, 0, SOUND("MP3")},
    {"\xff\xfa", 2, 0, NULL, 0, SOUND("MP3")},
    {"", 0, 4, "ftypM4A ", 8, SOUND("M4A")},
    {"RIFF", 4, 8, "AVI ", 4, VIDEO("AVI")},
    {"", 0, 4, "ftyp", 4, VIDEO("MP4")},
    {"\x1a\x45\xdf\xa3", 4, 0, NULL, 0, VIDEO("Matroska or WebM")},
    {"%PDF-", 5, 0, NULL, 0, OTHER("PDF")},
    {"PK\3\4", 4, 0, NULL, 0, OTHER("ZIP")},
};

static bool matches(const signature *s, const uint8_t *bytes, size_t n) {
  size_t n_first = (size_t)s->n_first, at = (size_t)s->at, n_second = (size_t)s->n_second;
  if (n < n_first || n < at + n_second) return false;
  return memcmp(bytes, s->first, n_first) == 0 && (n_second == 0 || memcmp(bytes + at, s->second, n_second) == 0);
}

ij__file_kind ij__file_kind_of(const uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < IJ_COUNT_OF(signatures); i++) {
    if (matches(&signatures[i], bytes, n)) return signatures[i].kind;
  }
  return (ij__file_kind){"", IJ_FILE_UNKNOWN, NULL};
}

const char *ij__file_class_name(ij__file_class is) {
  switch (is) {
    case IJ_FILE_PICTURE: return "a picture";
    case IJ_FILE_SOUND: return "a sound";
    case IJ_FILE_VIDEO: return "a video";
    case IJ_FILE_OTHER: return "neither a picture nor a sound";
    case IJ_FILE_UNKNOWN: break;
  }
  return "of a kind that is not known here";
}
