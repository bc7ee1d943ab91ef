/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Cryptography of a file: seal hash|encrypt|sign FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sodium.h"

static unsigned char data[1 << 19], sealed[(1 << 19) + 64], opened[1 << 19];

static void print(const char *name, const unsigned char *bytes, size_t size) {
  char text[257];
  printf("%s %s\n", name, sodium_bin2hex(text, sizeof text, bytes, size));
}

static void check(int ok, const char *what) {
  if (!ok) {
    fprintf(stderr, "seal: %s failed\n", what);
    exit(1);
  }
}

static void hash(size_t size) {
  unsigned char result[64], key[32] = {1, 2, 3};
  crypto_hash_sha256(result, data, size);
  print("sha256", result, 32);
  crypto_hash_sha512(result, data, size);
  print("sha512", result, 64);
  crypto_generichash(result, 32, data, size, key, sizeof key);
  print("blake2b", result, 32);
  for (size_t at = 0; at + 40 <= size; at += 40)
    crypto_shorthash(result + at / 40 % 7, data + at, 40, key);
  print("siphash", result, 8);
  crypto_auth_hmacsha512(result, data, size, key);
  print("hmac", result, 32);
  crypto_onetimeauth(result, data, size, key);
  print("poly1305", result, 16);
  check(crypto_pwhash_scryptsalsa208sha256_ll((const unsigned char *)"pass", 4, key, 8, 1024, 8, 1,
                                              result, 32) == 0,
        "scrypt");
  print("scrypt", result, 32);
}

static void encrypt(size_t size) {
  unsigned char key[32] = {4, 5, 6}, nonce[24] = {7}, tag[64];
  unsigned long long length;
  for (int i = 0; i < 5; i++) {
    nonce[1] = (unsigned char)i;
    crypto_box_detached_afternm(sealed, tag, data, size, nonce, key);
    check(crypto_box_open_detached_afternm(opened, sealed, tag, size, nonce, key) == 0, "box");
  }
  print("box", tag, 16);
  crypto_secretbox_easy(sealed, data, size, nonce, key);
  check(crypto_secretbox_open_easy(opened, sealed, size + 16, nonce, key) == 0, "open");
  crypto_hash_sha256(tag, sealed, size + 16);
  print("secretbox", tag, 32);
  crypto_aead_xchacha20poly1305_ietf_encrypt(sealed, &length, data, size, key, 32, NULL, nonce,
                                             key);
  check(crypto_aead_xchacha20poly1305_ietf_decrypt(opened, &length, NULL, sealed, length, key, 32,
                                                   nonce, key) == 0,
        "decrypt");
  check(memcmp(opened, data, size) == 0, "compare");
  crypto_generichash(tag, 32, sealed, size + 16, NULL, 0);
  print("xchacha20", tag, 32);
  sealed[5] ^= 1;
  check(crypto_aead_xchacha20poly1305_ietf_decrypt(opened, &length, NULL, sealed, length, key, 32,
                                                   nonce, key) != 0,
        "forgery");
  crypto_stream_xor(sealed, data, size, nonce, key);
  char *text = malloc(size * 2);
  sodium_bin2base64(text, size * 2, sealed, size, sodium_base64_VARIANT_ORIGINAL);
  printf("%.64s\n", text);
  free(text);
}

static void sign(size_t size) {
  unsigned char seed[32] = {8}, public[32], secret[64], other[32], shared[32], signature[64];
  for (int i = 0; i < 120; i++) {
    seed[1] = (unsigned char)i;
    crypto_sign_seed_keypair(public, secret, seed);
    size_t part = size / 120;
    crypto_sign_detached(signature, NULL, data + i * part, part, secret);
    check(crypto_sign_verify_detached(signature, data + i * part, part, public) == 0, "verify");
    crypto_box_seed_keypair(public, secret, seed);
    check(crypto_scalarmult_base(other, seed) == 0, "base");
    check(crypto_scalarmult(shared, secret, other) == 0, "scalarmult");
    if (i % 24 == 0) {
      print("signature", signature, 64);
      print("shared", shared, 32);
    }
  }
}

int main(int argc, char **argv) {
  FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!file || sodium_init() < 0)
    return 2;
  size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  if (!strcmp(argv[1], "hash"))
    hash(size);
  else if (!strcmp(argv[1], "encrypt"))
    encrypt(size);
  else
    sign(size);
  return 0;
}
