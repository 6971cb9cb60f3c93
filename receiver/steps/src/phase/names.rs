//! The evidence of a step's kernels for its phase, by their families ([`functions::family`]).
//!
//! There are three questions, each answered by a logarithm of odds: does the step train, does it generate tokens, does
//! it decode. The families that the step launched are added up, each once, however often it was launched. Where all
//! kernels of a step have names, the absence of families is evidence, too. All sums are bounded.

use functions::family::Family;

use crate::kernels::{Functions, Kernels};

/// The largest evidence of families for one question.
const ODDS_MAX: f64 = 6.0;
/// The evidence for and against, of both of which there must be so much for a contradiction.
const CONFLICT: f64 = 2.0;
/// The share of launches with names from which names are evidence.
const NAMED_MIN: f32 = 0.5;
/// The share of launches with names from which the absence of a family is evidence.
const COMPLETE_MIN: f32 = 0.9;
/// The evidence against training of a complete step without a kernel that trains, and in a process that launched such kernels.
const NO_TRAINING: f64 = 3.0;
const NO_TRAINING_NOW: f64 = 1.5;
/// The evidence against generation of a complete pass without cache and sampling.
const NO_CACHE: f64 = 2.0;
/// Evidence against generation of such a pass in a process that wrote a cache in other steps, and in one that generates
/// without a cache that is known.
const NO_CACHE_NOW: f64 = 3.0;
const NO_CACHE_EVER: f64 = 0.7;
/// The evidence for generation from which the absence of a cache says nothing.
const GENERATES_MIN: f64 = 2.5;
/// The evidence against a decode of attention without the cache that the step writes.
const DENSE: f64 = 2.5;
/// The evidence for a decode if most products are those of a matrix and a vector.
const VECTORS: f64 = 2.0;

/// The evidence for the answer to one question.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Odds {
    yes: f64,
    no: f64,
}

impl Odds {
    fn add(&mut self, odds: f64) {
        *if odds > 0.0 { &mut self.yes } else { &mut self.no } += odds.abs();
    }

    /// Returns the logarithm of the odds.
    pub(crate) fn sum(&self) -> f64 {
        (self.yes - self.no).clamp(-ODDS_MAX, ODDS_MAX)
    }

    /// Returns true if something speaks for it.
    pub(crate) fn is_evident(&self) -> bool {
        self.yes >= 1.0
    }

    /// Returns true if there is much evidence on both sides.
    pub(crate) fn is_disputed(&self) -> bool {
        self.yes.min(self.no) >= CONFLICT && self.sum().abs() < CONFLICT
    }
}

/// What is known of a step beside its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Facts<'a> {
    /// The evidence of its kernels, if they have names.
    pub(crate) names: Option<&'a NameEvidence>,
    /// True if it is the only step of its process, which has no baseline either: there is nothing to compare it with.
    pub(crate) is_alone: bool,
}

/// The evidence of the kernels of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NameEvidence {
    pub(crate) trains: Odds,
    pub(crate) generates: Odds,
    pub(crate) decodes: Odds,
    /// True if the attention of prompts and that of answers have kernels of their own, and both were launched.
    pub(crate) is_mixed: bool,
    /// False if nothing in the step does the work of a model: only sampling, or preparation.
    pub(crate) is_pass: bool,
    /// True if nearly all kernels of the step have names: what it did not launch is evidence, too.
    pub(crate) is_complete: bool,
}

impl NameEvidence {
    /// Returns the evidence; `None` if too few kernels have names. `is_known` is false if the step launched graphs whose
    /// contents are not known, `has_generated` true if an earlier step of the process generated tokens.
    pub(crate) fn of(
        kernels: &Kernels,
        functions: &Functions,
        is_known: bool,
        has_generated: bool,
    ) -> Option<NameEvidence> {
        if kernels.launches < 1.0 || kernels.named_share() < NAMED_MIN {
            return None;
        }
        let mut evidence = NameEvidence::default();
        evidence.add_families(kernels);
        evidence.add_products(kernels);
        // Where keys and values are written into a cache, attention without it is that of prompts.
        let is_dense = kernels.has(Family::CacheWrite) && kernels.has(Family::Attention);
        if is_dense {
            evidence.decodes.add(-DENSE);
        }
        let reads = is_dense || kernels.has(Family::PrefillAttention);
        evidence.is_mixed = reads && kernels.has(Family::DecodeAttention);
        evidence.is_pass = !is_known || kernels.of_pass() >= 1.0;
        evidence.is_complete = is_known && kernels.named_share() >= COMPLETE_MIN;
        if evidence.is_complete {
            evidence.add_absent(kernels, functions, has_generated);
        }
        Some(evidence)
    }

    fn add_families(&mut self, kernels: &Kernels) {
        for (number, family) in Family::ALL.into_iter().enumerate() {
            let (presence, says) = (kernels.presence(number), family.says());
            self.trains.add(presence * f64::from(says.trains) / 10.0);
            self.generates.add(presence * f64::from(says.generates) / 10.0);
            self.decodes.add(presence * f64::from(says.decodes) / 10.0);
        }
    }

    fn add_products(&mut self, kernels: &Kernels) {
        let (vectors, matrices) = (kernels.of(Family::Gemv), kernels.of(Family::Gemm));
        if vectors > 8.0 && vectors > 2.0 * matrices {
            self.decodes.add(VECTORS);
            self.generates.add(VECTORS);
        }
    }

    /// Adds the evidence of what a step without unnamed kernels did not launch.
    fn add_absent(&mut self, kernels: &Kernels, functions: &Functions, has_generated: bool) {
        let trains = |family| functions.has(family);
        if !self.trains.is_evident() {
            let has_trained = trains(Family::Backward) || trains(Family::Optimizer);
            self.trains.add(if has_trained { -NO_TRAINING_NOW } else { -NO_TRAINING });
        }
        if self.generates.yes < GENERATES_MIN && self.is_pass && !kernels.has(Family::CacheWrite) {
            self.generates.add(match (functions.has(Family::CacheWrite), has_generated) {
                (true, _) => -NO_CACHE_NOW,
                (false, true) => -NO_CACHE_EVER,
                (false, false) => -NO_CACHE,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use event::GpuFunction;
    use probe_abi::function::{Signature, one, word};

    use super::*;

    /// Returns the evidence of a step that launched each of these functions `times` times.
    fn evidence(launched: &[(&str, u64)], others: &[&str]) -> Option<NameEvidence> {
        let (mut functions, mut signature) = (Functions::default(), Signature::default());
        let names = launched.iter().map(|(name, _)| name).chain(others);
        for (ordinal, name) in names.enumerate() {
            let (ordinal, symbol) = (ordinal as u32, (*name).to_owned());
            functions.observe(&GpuFunction { ordinal, symbol, ..GpuFunction::default() });
        }
        for (lane, (_, times)) in launched.iter().enumerate() {
            signature.0[word(lane as u32)] += one(lane as u32) * times;
        }
        NameEvidence::of(&functions.kernels(&signature), &functions, true, false)
    }

    #[track_caller]
    fn check(launched: &[(&str, u64)], others: &[&str], trains: bool, generates: bool) {
        let evidence = evidence(launched, others).unwrap();
        let found = (evidence.trains.sum() > 1.0, evidence.generates.sum() > 1.0);
        assert_eq!(found, (trains, generates), "{launched:?}: {evidence:?}");
    }

    #[test]
    fn kernels_say_what_a_step_does() {
        let gemm = ("ampere_sgemm_32x32", 50);
        check(&[gemm, ("softmax_warp_backward", 1), ("multi_tensor_apply_kernel", 3)], &[], true, false);
        check(&[gemm, ("reshape_and_cache_kernel", 24), ("attn_fwd", 24)], &[], false, true);
        check(&[gemm, ("vectorized_layer_norm_kernel", 24), ("attn_fwd", 24)], &[], false, false);
        check(&[gemm, ("attn_fwd", 24)], &["multi_tensor_apply_kernel"], false, false);
    }

    #[test]
    fn attention_of_prompts_and_of_answers_is_a_mixed_step() {
        let decode = ("paged_attention_v1_kernel", 24);
        let is_mixed = |launched: &[(&str, u64)]| evidence(launched, &[]).unwrap().is_mixed;
        assert!(is_mixed(&[decode, ("reshape_and_cache_kernel", 24), ("flash_fwd_kernel", 24)]));
        assert!(!is_mixed(&[decode, ("reshape_and_cache_kernel", 24)]));
    }

    #[test]
    fn few_names_are_no_evidence() {
        assert_eq!(evidence(&[("attn_fwd", 10), ("", 11)], &[]), None);
        assert_eq!(evidence(&[], &[]), None);
        let partly = evidence(&[("ampere_sgemm_32x32", 60), ("", 40)], &[]).unwrap();
        assert_eq!(
            (partly.trains.sum(), partly.generates.sum()),
            (0.0, 0.0),
            "nothing is known to be absent"
        );
    }

    #[test]
    fn evidence_is_bounded() {
        let all: Vec<(&str, u64)> =
            functions::family::ROWS.iter().map(|row| (row.examples[0], 1)).take(63).collect();
        let evidence = evidence(&all, &[]).unwrap();
        let odds = [evidence.trains, evidence.generates, evidence.decodes];
        assert!(odds.iter().all(|odds| odds.sum().abs() <= ODDS_MAX));
    }
}
