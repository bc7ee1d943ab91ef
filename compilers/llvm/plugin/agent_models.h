// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by plugins with several agents: their models, the embeddings that models ask for, and the
// check that an answer is allowed. The first agent chooses among all rows of a table, such as the
// live ranges of a function; the others decide about one of them.
#ifndef MLBRIDGE_LLVM_PLUGIN_AGENT_MODELS_H
#define MLBRIDGE_LLVM_PLUGIN_AGENT_MODELS_H

#include "flags.h"

#include <mlbridge/agent.h>
#include <mlbridge/environment.h>
#include <mlbridge/model.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Module.h"

#include <optional>
#include <string>

namespace mlbridge::plugin {

/// The name of the input with embeddings: of all rows, or of one.
inline const char *embeddingName(size_t Agent) { return Agent == 0 ? "embeddings" : "embedding"; }

inline TensorSpec embeddingSpec(size_t Agent, size_t Dimension, int64_t MaxRows) {
  const auto Length = static_cast<int64_t>(Dimension);
  return Agent == 0 ? TensorSpec::of<float>(embeddingName(Agent), {Dynamic, Length}, {MaxRows, 0})
                    : TensorSpec::of<float>(embeddingName(Agent), {Length});
}

/// The answer of the agent whose output has this name, if the mask allows it; or else PolicyFailed.
inline Expected<size_t> allowedChoice(const Action &Taken, const std::string &Output,
                                      llvm::ArrayRef<uint8_t> Mask) {
  const Expected<int64_t> Choice = Taken.choice(Output, Mask.size());
  if (!Choice)
    return Choice.status();
  if (!Mask[static_cast<size_t>(*Choice)])
    return Status(Code::PolicyFailed, Output + " " + std::to_string(*Choice) + " is masked");
  return static_cast<size_t>(*Choice);
}

/// The models of an environment's agents for one module, and the vocabulary of the embeddings that
/// some of them ask for. The environment says what there is: specs(), wantsEmbeddings(Agent, Model)
/// and embeddingsFor(Agent, Dimension).
template <class Environment, class Vocabulary> class AgentModels {
public:
  /// Opens the models, when it is called first. A failure is in what run() returns.
  void open(const Settings &Options, const std::string &VocabularyFile, const llvm::Module &M) {
    if (Models)
      return;
    const auto SignatureFor = [&](size_t Agent, const Model &Policy) -> Expected<Signature> {
      Signature Wanted = Environment::specs()[Agent].signature;
      if (!Environment::wantsEmbeddings(Agent, Policy))
        return Wanted;
      if (const Status Read = read(Options.Prefix + ".vocabulary", VocabularyFile, Policy); !Read)
        return Read;
      for (TensorSpec &Input : Environment::embeddingsFor(Agent, Words->dimension()))
        Wanted.inputs.push_back(std::move(Input));
      return Wanted;
    };
    Models.emplace(Agents::open(Environment::specs(), Options.Model,
                                Options.opening(M.getSourceFileName()), SignatureFor));
  }

  /// The agents, with embeddings for those whose models ask for them.
  Span<const AgentSpec> specs() const { return Models->specs(); }
  /// Empty if no model asks for embeddings.
  const std::optional<Vocabulary> &vocabulary() const { return Words; }

  EpisodeResult run(Environment &Around, const llvm::Function &F) {
    EpisodeOptions Episode;
    Episode.unit = placeOf(F);
    return mlbridge::run(Around, *Models, Episode);
  }

private:
  /// Reads the vocabulary unless it is there: from the file, or the one that is built in if there
  /// is no file. Mismatch if the model's metadata states another digest.
  Status read(const std::string &Key, const std::string &File, const Model &Policy) {
    if (!Words) {
      auto Read = File.empty() ? Vocabulary::builtin() : Vocabulary::read(File);
      if (!Read)
        return Read.status();
      Words.emplace(*Read);
    }
    const std::optional<std::string> Digest = Policy.metadata(Key);
    if (Digest && *Digest != Words->digest())
      return {Code::Mismatch, Key + ": " + (File.empty() ? "the one in this plugin" : File) +
                                  " has the digest " + Words->digest() + ", the model wants '" +
                                  *Digest + "'"};
    return Status();
  }

  std::optional<Agents> Models;
  std::optional<Vocabulary> Words;
};

} // namespace mlbridge::plugin

#endif
