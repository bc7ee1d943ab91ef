// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ask.h"

#include "environment.h"
#include "remarks.h"
#include "selection_log.h"

#include <mlbridge/fitting.h>
#include <mlbridge/model.h>

using namespace llvm;

namespace mlbridge::phase_ordering {

Advice ask(const Options &Given, Module &M, ModuleAnalysisManager &MAM, bool Compares) {
  PhaseOrderingEnvironment Environment(M, MAM, Given.MaxSteps, Given.Vocabulary);
  const OpenOptions Opening = Given.opening(M.getSourceFileName());

  const auto SignatureFor = [&](const mlbridge::Model &Opened) {
    return Environment.signatureFor(Opened);
  };

  // [three-lines]
  mlbridge::Model Policy = mlbridge::Model::open(Given.Model, Opening);
  mlbridge::Status Bound = mlbridge::bindFitting(Policy, SignatureFor);
  mlbridge::EpisodeResult Result = mlbridge::run(Environment, Policy);
  // [/three-lines]

  // The first of the causes; what follows from it says less.
  Status End = Result.status;
  if (!Policy.status() && Bound)
    End = Policy.status();
  else if (!Environment.status())
    End = Environment.status();
  else if (!Bound)
    End = Bound;

  Advice Answer;
  if (!End) {
    Given.giveUpOn(M, Given.describe(End));
    Selection Failure;
    Failure.Problem = End.toString();
    logSelection(Given, M, Failure);
    return Answer;
  }
  Answer.Candidates = Environment.ranked();
  if (Answer.Candidates.empty() && Compares) {
    Answer.Candidates.push_back(Environment.asCandidate());
  } else if (Answer.Candidates.empty()) {
    Environment.commit();
    Answer.IsApplied = true;
  }
  remarkDecisions(M, Environment.decisions());
  return Answer;
}

} // namespace mlbridge::phase_ordering
