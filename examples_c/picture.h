/* Pictures in memory and in files: reads PPM (P6), writes PPM and PNG. Functions return false with a line on stderr. */
#ifndef EXAMPLES_C_PICTURE_H_
#define EXAMPLES_C_PICTURE_H_

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows from top to bottom, three bytes a pixel: red, green, blue. */
typedef struct {
  int width, height;
  unsigned char *pixels;
} Picture;

static size_t picture_bytes(int width, int height) { return (size_t)width * (size_t)height * 3; }

/* The next number of a PPM header; comments run from '#' to the end of the line. */
static bool read_number(FILE *file, int *number) {
  int c = getc(file);
  while (c == '#' || c == ' ' || c == '\t' || c == '\r' || c == '\n') {
    if (c == '#')
      while (c != '\n' && c != EOF) c = getc(file);
    c = getc(file);
  }
  *number = 0;
  int digits = 0;
  for (; c >= '0' && c <= '9' && digits < 6; digits++, c = getc(file)) *number = 10 * *number + (c - '0');
  return digits > 0 && (c == ' ' || c == '\t' || c == '\r' || c == '\n');
}

static bool read_ppm(const char *path, Picture *picture) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return false;
  }
  int width, height, maximum;
  bool ok = getc(file) == 'P' && getc(file) == '6' && read_number(file, &width) && read_number(file, &height) &&
            read_number(file, &maximum) && width > 0 && height > 0 && width <= 16384 && height <= 16384 &&
            maximum == 255;
  picture->pixels = ok ? malloc(picture_bytes(width, height)) : NULL;
  ok = picture->pixels != NULL &&
       fread(picture->pixels, 1, picture_bytes(width, height), file) == picture_bytes(width, height);
  fclose(file);
  if (!ok) {
    fprintf(stderr, "%s: not a complete PPM picture (P6, 8 bits)\n", path);
    free(picture->pixels);
    return false;
  }
  picture->width = width;
  picture->height = height;
  return true;
}

static bool write_ppm_body(FILE *file, const Picture *picture) {
  size_t bytes = picture_bytes(picture->width, picture->height);
  return fprintf(file, "P6\n%d %d\n255\n", picture->width, picture->height) > 0 &&
         fwrite(picture->pixels, 1, bytes, file) == bytes;
}

static void put_u32(unsigned char *to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* A PNG chunk: length, type, data, CRC-32 of type and data. */
static bool write_chunk(FILE *file, const char *type, const unsigned char *data, size_t length) {
  unsigned char head[8], tail[4];
  put_u32(head, (uint32_t)length);
  memcpy(head + 4, type, 4);
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < 4 + length; i++) {
    crc ^= i < 4 ? head[4 + i] : data[i - 4];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  put_u32(tail, ~crc);
  return fwrite(head, 1, 8, file) == 8 && fwrite(data, 1, length, file) == length && fwrite(tail, 1, 4, file) == 4;
}

/* PNG wants a zlib stream; its simplest form stores the bytes in blocks of up to 65535, uncompressed. */
static bool write_png_body(FILE *file, const Picture *picture) {
  enum { BLOCK = 65535 };
  size_t row = picture_bytes(picture->width, 1), raw = (row + 1) * (size_t)picture->height;
  size_t size = 2 + raw + (raw + BLOCK - 1) / BLOCK * 5 + 4;
  unsigned char *stream = malloc(size), *p = stream;
  if (stream == NULL) return false;
  *p++ = 0x78; /* deflate, 32 KiB window */
  *p++ = 0x01;
  uint32_t sum1 = 1, sum2 = 0; /* Adler-32 */
  for (size_t i = 0; i < raw; i++) {
    if (i % BLOCK == 0) {
      size_t length = raw - i < BLOCK ? raw - i : BLOCK;
      *p++ = i + length == raw; /* the last block is marked */
      *p++ = (unsigned char)length;
      *p++ = (unsigned char)(length >> 8);
      *p++ = (unsigned char)~length;
      *p++ = (unsigned char)(~length >> 8);
    }
    size_t column = i % (row + 1); /* each row begins with its filter: 0, none */
    *p = column == 0 ? 0 : picture->pixels[i / (row + 1) * row + column - 1];
    sum1 = (sum1 + *p++) % 65521;
    sum2 = (sum2 + sum1) % 65521;
  }
  put_u32(p, sum2 << 16 | sum1);

  unsigned char header[13] = {0};
  put_u32(header, (uint32_t)picture->width);
  put_u32(header + 4, (uint32_t)picture->height);
  header[8] = 8; /* bits a channel */
  header[9] = 2; /* red, green, blue */
  bool ok = fwrite("\x89PNG\r\n\x1a\n", 1, 8, file) == 8 && write_chunk(file, "IHDR", header, sizeof header) &&
            write_chunk(file, "IDAT", stream, size) && write_chunk(file, "IEND", header, 0);
  free(stream);
  return ok;
}

/* Writes PNG if the name ends in ".png", else PPM. */
static bool write_picture(const char *path, const Picture *picture) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return false;
  }
  size_t length = strlen(path);
  bool png = length > 4 && strcmp(path + length - 4, ".png") == 0;
  bool ok = png ? write_png_body(file, picture) : write_ppm_body(file, picture);
  ok = fclose(file) == 0 && ok;
  if (!ok) fprintf(stderr, "%s: cannot write\n", path);
  return ok;
}

#endif
