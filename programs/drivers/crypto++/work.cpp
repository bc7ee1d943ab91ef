// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hashes, ciphers and keys: work hash|cipher|keys FILE TIMES.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "aes.h"
#include "blowfish.h"
#include "camellia.h"
#include "chacha.h"
#include "des.h"
#include "eccrypto.h"
#include "filters.h"
#include "hex.h"
#include "hmac.h"
#define CRYPTOPP_ENABLE_NAMESPACE_WEAK 1
#include "md5.h"
#include "modes.h"
#include "oids.h"
#include "randpool.h"
#include "ripemd.h"
#include "rsa.h"
#include "serpent.h"
#include "sha.h"
#include "sha3.h"
#include "twofish.h"
#include "whrlpool.h"

using namespace CryptoPP;

static const byte KEY[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

static void show(const std::string &what, const std::string &bytes) {
  std::string text;
  StringSource(bytes.substr(0, 24), true, new HexEncoder(new StringSink(text)));
  std::cout << what << ' ' << bytes.size() << ' ' << text << '\n';
}

template <class Hash> static void hash(Hash algorithm, const std::string &text) {
  std::string made;
  StringSource(text, true, new HashFilter(algorithm, new StringSink(made)));
  show(algorithm.AlgorithmName(), made);
}

template <class Cipher> static void cipher(const std::string &text) {
  typename CBC_Mode<Cipher>::Encryption encrypt(KEY, Cipher::DEFAULT_KEYLENGTH, KEY);
  typename CBC_Mode<Cipher>::Decryption decrypt(KEY, Cipher::DEFAULT_KEYLENGTH, KEY);
  std::string made, again;
  StringSource(text, true, new StreamTransformationFilter(encrypt, new StringSink(made)));
  StringSource(made, true, new StreamTransformationFilter(decrypt, new StringSink(again)));
  if (again != text)
    std::exit(1);
  show(Cipher::StaticAlgorithmName(), made);
}

static void keys(const std::string &text) {
  RandomPool random;
  random.IncorporateEntropy(KEY, sizeof KEY);
  InvertibleRSAFunction parameters;
  parameters.Initialize(random, 512);
  RSASS<PKCS1v15, SHA256>::Signer signer(parameters);
  RSASS<PKCS1v15, SHA256>::Verifier verifier(signer);
  const auto *bytes = reinterpret_cast<const byte *>(text.data());
  SecByteBlock made(signer.SignatureLength());
  signer.SignMessage(random, bytes, text.size(), made);
  if (!verifier.VerifyMessage(bytes, text.size(), made, made.size()))
    std::exit(1);
  show("RSA", std::string(made.begin(), made.end()));
  DL_GroupParameters_EC<ECP> curve(ASN1::secp256r1());
  const Integer secret = Integer(KEY, 32) % curve.GetSubgroupOrder();
  ECP::Point point = curve.ExponentiateBase(secret);
  for (int n = 0; n < 4; ++n)
    point = curve.GetCurve().Multiply(point.x % curve.GetSubgroupOrder(), point);
  std::cout << "curve " << std::hex << point.x << ' ' << point.y << std::dec << '\n';
  const Integer prime = Integer::Power2(255) - 19;
  std::cout << "power " << std::hex << a_exp_b_mod_c(point.x, point.y, prime) << std::dec << '\n';
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  const std::string how = argv[1];
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (int n = std::atoi(argv[3]); n > 0; --n) {
    if (how == "hash") {
      hash(SHA1(), text), hash(SHA256(), text), hash(SHA512(), text), hash(SHA3_256(), text);
      hash(Weak::MD5(), text), hash(RIPEMD160(), text), hash(Whirlpool(), text);
      HMAC<SHA256> code(KEY, sizeof KEY);
      std::string made;
      StringSource(text, true, new HashFilter(code, new StringSink(made)));
      show("HMAC", made);
    } else if (how == "cipher") {
      cipher<AES>(text), cipher<Blowfish>(text), cipher<DES_EDE3>(text), cipher<Camellia>(text);
      cipher<Serpent>(text), cipher<Twofish>(text);
    } else {
      keys(text.substr(0, 1000));
    }
  }
  return 0;
}
