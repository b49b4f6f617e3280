/* audio_ogg.c: whether an Ogg file is whole: pages without a gap, checksums, numbers in order, one stream with its end.
 *
 * Decoders look for the next good page after a bad one and go on, and stop after the first of several streams. For a model that would be
 * a sound with a part missing that nobody was told of.
 */
#include <string.h>

#include "media/audio_parts.h"

enum { PAGE_HEAD = 27, IS_FIRST = 2, IS_LAST = 4 };

static uint32_t read32(const uint8_t *b) { return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24; }

/* CRC-32 with polynomial 0x04c11db7, most significant bit first; the place of the checksum itself counts as zeros. */
static uint32_t page_checksum(const uint32_t *table, const uint8_t *page, size_t n) {
  uint32_t c = 0;
  for (size_t i = 0; i < n; i++) c = c << 8 ^ table[c >> 24 ^ (i >= 22 && i < 26 ? 0u : page[i])];
  return c;
}

static void make_table(uint32_t *table) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i << 24;
    for (int bit = 0; bit < 8; bit++) c = c & 0x80000000u ? c << 1 ^ 0x04c11db7u : c << 1;
    table[i] = c;
  }
}

/* Bytes of the page at b; 0: it is not whole. */
static size_t page_size(const uint8_t *b, size_t n) {
  if (n < PAGE_HEAD || n < (size_t)PAGE_HEAD + b[26]) return 0;
  size_t size = (size_t)PAGE_HEAD + b[26];
  for (int i = 0; i < b[26]; i++) size += b[PAGE_HEAD + i];
  return size <= n ? size : 0;
}

ij_status ij__ogg_check(const uint8_t *bytes, size_t n, const char *name, ij_err *err) {
  uint32_t table[256], serial = 0, number = 0;
  bool ended = false;
  make_table(table);
  for (size_t at = 0, size; at < n; at += size, number++) {
    const uint8_t *b = bytes + at;
    if (n - at >= 4 && memcmp(b, "OggS", 4) != 0)
      return ij__fail(err, IJ_E_FORMAT, name, "the Ogg file is damaged: no page begins at byte %zu", at);
    size = page_size(b, n - at);
    if (size == 0) return ij__fail(err, IJ_E_FORMAT, name, "the Ogg file is cut off: its page at byte %zu goes beyond the end", at);
    if (page_checksum(table, b, size) != read32(b + 22))
      return ij__fail(err, IJ_E_FORMAT, name, "the Ogg file is damaged: the checksum of its page at byte %zu is wrong", at);
    if (at == 0) serial = read32(b + 14);
    if (read32(b + 14) != serial || (at > 0 && (b[5] & IS_FIRST)))
      return ij__fail(err, IJ_E_UNSUPPORTED, name, "the Ogg file holds more than one stream: give each as a file of its own");
    if (ended || read32(b + 18) != number)
      return ij__fail(err, IJ_E_FORMAT, name, "the Ogg file is damaged: page %u stands at byte %zu, where page %u was expected",
                      (unsigned)read32(b + 18), at, (unsigned)number);
    ended = b[5] & IS_LAST;
  }
  if (!ended) return ij__fail(err, IJ_E_FORMAT, name, "the Ogg file is cut off: its last page is not marked as the end");
  return IJ_OK;
}
