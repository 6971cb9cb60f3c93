//! The labelled workloads, as rows.
//!
//! There are three sets. The classifier was developed with [`Set::Tuned`]; [`Set::HeldOut`] was used only to measure it; in
//! [`Set::Hard`] steps of different phases have nearly equal shapes, and the right label is unknown.

use probe_abi::fold::Counter;

use crate::engines::{Drafts, Engine, Graphs};
use crate::machine::{Kernels, Machine, Model};
use crate::program::{Program, Segment};
use crate::testing::Rng;
use crate::traffic::{Lengths, Load, Policy, Scheduler, Traffic};
use crate::training::{Loop, recommendation};

/// The purpose of a workload.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Set {
    Tuned,
    HeldOut,
    Hard,
    Real,
}

impl Set {
    pub const ALL: [Set; 4] = [Set::Tuned, Set::HeldOut, Set::Hard, Set::Real];

    pub fn about(self) -> &'static str {
        match self {
            Set::Tuned => "workloads used in development, at other seeds",
            Set::HeldOut => "workloads not used in development",
            Set::Hard => "steps of different phases with nearly equal shapes",
            Set::Real => "traces of real programs",
        }
    }
}

/// A kind of program. Model, kernels, lengths and load are random, by the seed.
pub struct Workload {
    pub set: Set,
    pub name: &'static str,
    pub run: fn(&mut Rng, &mut Program),
}

/// Returns a row of [`WORKLOADS`].
const fn row(set: Set, name: &'static str, run: fn(&mut Rng, &mut Program)) -> Workload {
    Workload { set, name, run }
}

/// All workloads, sorted by set.
pub const WORKLOADS: &[Workload] = &[
    row(Set::Tuned, "eager, prompts first", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        serve(engine, chat(r, PROMPTS_FIRST), r, p);
    }),
    row(Set::Tuned, "eager, chunked", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::Tuned, "graphs for answers, prompts first", |r, p| {
        let engine = Engine::serving(Graphs::Answers { most: 256 }, 1, r);
        serve(engine, chat(r, PROMPTS_FIRST), r, p);
    }),
    row(Set::Tuned, "graphs in pieces, chunked", |r, p| {
        let engine = Engine::serving(Graphs::Pieces { most: 512 }, 1, r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::Tuned, "graphs whole and in pieces, chunked", |r, p| {
        let engine = Engine::serving(Graphs::AnswersAndPieces { most: 512 }, 1, r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::Tuned, "tensor parallel, eager, chunked", |r, p| {
        let engine = Engine::serving(Graphs::None, ranks(r), r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::Tuned, "PyTorch, one request at a time", |r, p| {
        let engine = Engine::plain(r);
        serve(engine, Traffic { policy: Policy::Batches { requests: 1 }, ..chat(r, PROMPTS_FIRST) }, r, p);
    }),
    row(Set::Tuned, "embedding of documents", |r, p| {
        let engine = embedder(r);
        let policy = Policy::PromptsOnly { tokens_max: 16_384, requests_max: 32 };
        serve(engine, Traffic { prompt: Lengths::new(300.0, 0.6, 2_048.0), ..chat(r, policy) }, r, p);
    }),
    row(Set::Tuned, "prompts alone, disaggregated", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        let policy = Policy::PromptsOnly { tokens_max: 8_192, requests_max: 16 };
        serve(engine, chat(r, policy), r, p);
    }),
    row(Set::Tuned, "answers alone, disaggregated, eager", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        serve(engine, Traffic { load: wave, ..chat(r, Policy::AnswersOnly) }, r, p);
    }),
    row(Set::Tuned, "drafts by a small model, graphs", |r, p| {
        let drafts = Drafts { is_by_graph: true, ..drafts(r) };
        let engine = Engine { drafts: Some(drafts), ..Engine::serving(Graphs::Answers { most: 256 }, 1, r) };
        serve(engine, Traffic { accepted: 2.5, ..chat(r, PROMPTS_FIRST) }, r, p);
    }),
    row(Set::Tuned, "drafts by a small model, eager", |r, p| {
        let drafts = drafts(r);
        let engine = Engine { drafts: Some(drafts), ..Engine::serving(Graphs::None, 1, r) };
        serve(engine, Traffic { accepted: 2.5, ..chat(r, PROMPTS_FIRST) }, r, p);
    }),
    row(Set::Tuned, "load rises and falls, eager, chunked", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        serve(engine, Traffic { load: wave, ..chunked(r) }, r, p);
    }),
    row(Set::Tuned, "training, loss read each time", |r, p| {
        Loop::draw(r).run(STEPS, r, p);
    }),
    row(Set::Tuned, "training, accumulation, pauses to evaluate", |r, p| {
        let accumulated = 2 + r.below(7);
        let training =
            Loop { accumulated, pause_every: 50 + r.below(50), pause: 5 + r.below(30), ..Loop::draw(r) };
        training.run(STEPS / 2, r, p);
    }),
    row(Set::HeldOut, "experts, eager, chunked", |r, p| {
        let engine = with_experts(Engine::serving(Graphs::None, 1, r), r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::HeldOut, "experts, graphs whole and in pieces", |r, p| {
        let engine = with_experts(Engine::serving(Graphs::AnswersAndPieces { most: 512 }, 1, r), r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::HeldOut, "tensor parallel, eager, prompts first", |r, p| {
        let engine = Engine::serving(Graphs::None, ranks(r), r);
        serve(engine, chat(r, PROMPTS_FIRST), r, p);
    }),
    row(Set::HeldOut, "tensor parallel, graphs for answers", |r, p| {
        let engine = Engine::serving(Graphs::Answers { most: 256 }, ranks(r), r);
        serve(engine, chat(r, PROMPTS_FIRST), r, p);
    }),
    row(Set::HeldOut, "tensor parallel, graphs in pieces", |r, p| {
        let engine = Engine::serving(Graphs::Pieces { most: 512 }, ranks(r), r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::HeldOut, "adapters swapped, graphs for answers", |r, p| {
        let engine = Engine { swaps: 20, ..Engine::serving(Graphs::Answers { most: 256 }, 1, r) };
        serve(engine, chat(r, PROMPTS_FIRST), r, p);
    }),
    row(Set::HeldOut, "adapters swapped, eager, chunked", |r, p| {
        let engine = Engine { swaps: 20, ..Engine::serving(Graphs::None, 1, r) };
        serve(engine, chunked(r), r, p);
    }),
    row(Set::HeldOut, "ranking of passages", |r, p| {
        let engine = embedder(r);
        let policy = Policy::PromptsOnly { tokens_max: 32_768, requests_max: 64 };
        serve(engine, Traffic { prompt: Lengths::new(180.0, 0.8, 512.0), ..chat(r, policy) }, r, p);
    }),
    row(Set::HeldOut, "two models, a stream each", two_models),
    row(Set::HeldOut, "encoder and decoder", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        let encoder = Some((engine.machine, 1_500));
        let speech = Lengths::new(4.0, 0.0, 4.0);
        let policy = Policy::Batches { requests: 1 + r.below(8) };
        let traffic = Traffic { prompt: speech, policy, ..chat(r, PROMPTS_FIRST) };
        serve_transcripts(Engine { encoder, ..engine }, traffic, r, p);
    }),
    row(Set::HeldOut, "images and text, graphs for answers", |r, p| {
        let engine = Engine::serving(Graphs::Answers { most: 256 }, 1, r);
        let vision = Machine { model: Model::encoder(r), ..engine.machine };
        serve(Engine { encoder: Some((vision, 2_304)), ..engine }, chat(r, PROMPTS_FIRST), r, p);
    }),
    row(Set::HeldOut, "start-up with captures, then service", |r, p| {
        let engine = Engine::serving(Graphs::AnswersAndPieces { most: 512 }, 1, r);
        start_up(&engine, p);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::HeldOut, "nights without prompts, eager", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        let traffic = Traffic { answer: Lengths::new(900.0, 0.3, 4_000.0), load: night, ..chunked(r) };
        serve(engine, traffic, r, p);
    }),
    row(Set::HeldOut, "bursts of prompts, graphs in pieces", |r, p| {
        let engine = Engine::serving(Graphs::Pieces { most: 512 }, 1, r);
        serve(engine, Traffic { load: bursts, ..chunked(r) }, r, p);
    }),
    row(Set::HeldOut, "bursts of prompts, eager, prompts first", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        serve(engine, Traffic { load: bursts, ..chat(r, PROMPTS_FIRST) }, r, p);
    }),
    row(Set::HeldOut, "PyTorch, batches, a flag read back", |r, p| {
        let engine = Engine { tails: 1 + r.below(2), ..Engine::plain(r) };
        serve(engine, Traffic { policy: Policy::Batches { requests: 8 }, ..chat(r, PROMPTS_FIRST) }, r, p);
    }),
    row(Set::HeldOut, "answers alone, disaggregated, graphs", |r, p| {
        let engine = Engine::serving(Graphs::Answers { most: 256 }, 1, r);
        serve(engine, Traffic { load: wave, ..chat(r, Policy::AnswersOnly) }, r, p);
    }),
    row(Set::HeldOut, "training with collectives, loss read now and then", |r, p| {
        let training = Loop { read_every: 1 + r.below(10), has_collectives: true, ..Loop::draw(r) };
        training.run(STEPS / 4, r, p);
    }),
    row(Set::HeldOut, "training of recommendations, side streams", |r, p| recommendation(STEPS / 10, r, p)),
    row(Set::Hard, "one request, prompts of a few tokens", |r, p| {
        let engine = Engine::plain(r);
        let policy = Policy::Batches { requests: 1 };
        serve(engine, Traffic { prompt: Lengths::new(8.0, 0.2, 12.0), policy, ..chat(r, policy) }, r, p);
    }),
    row(Set::Hard, "prompts of a few tokens, eager, chunked", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        serve(engine, Traffic { prompt: Lengths::new(12.0, 0.7, 60.0), ..chunked(r) }, r, p);
    }),
    row(Set::Hard, "cached prefixes, eager, prompts first", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        let traffic =
            Traffic { prompt: Lengths::new(30.0, 0.8, 300.0), load: |_| 100.0, ..chat(r, PROMPTS_FIRST) };
        serve(engine, traffic, r, p);
    }),
    row(Set::Hard, "cached prefixes, graphs for answers", |r, p| {
        let engine = Engine::serving(Graphs::Answers { most: 256 }, 1, r);
        serve(engine, Traffic { prompt: Lengths::new(30.0, 0.8, 300.0), ..chat(r, PROMPTS_FIRST) }, r, p);
    }),
    row(Set::Hard, "classification of padded lines", |r, p| {
        let engine = embedder(r);
        let policy = Policy::PromptsOnly { tokens_max: 32, requests_max: 1 };
        serve(engine, Traffic { prompt: Lengths::new(32.0, 0.0, 32.0), ..chat(r, policy) }, r, p);
    }),
    row(Set::Hard, "embedding of queries, a few tokens each", |r, p| {
        let engine = embedder(r);
        let policy = Policy::PromptsOnly { tokens_max: 512, requests_max: 4 };
        serve(engine, Traffic { prompt: Lengths::new(12.0, 0.5, 64.0), ..chat(r, policy) }, r, p);
    }),
    row(Set::Hard, "embedding by graphs", |r, p| {
        let engine = Engine { graphs: Graphs::Everything { most: 16_384 }, ..embedder(r) };
        let policy = Policy::PromptsOnly { tokens_max: 16_384, requests_max: 32 };
        serve(engine, Traffic { prompt: Lengths::new(200.0, 0.6, 2_048.0), ..chat(r, policy) }, r, p);
    }),
    row(Set::Hard, "graphs for mixed steps too, chunked", |r, p| {
        let engine = Engine::serving(Graphs::Everything { most: 512 }, 1, r);
        serve(engine, chunked(r), r, p);
    }),
    row(Set::Hard, "drafts looked up, eager", |r, p| {
        let drafts = Drafts { by: None, ..drafts(r) };
        let engine = Engine { drafts: Some(drafts), ..Engine::serving(Graphs::None, 1, r) };
        serve(engine, Traffic { accepted: 2.0, ..chat(r, PROMPTS_FIRST) }, r, p);
    }),
    row(Set::Hard, "drafts looked up, graphs in pieces", |r, p| {
        let drafts = Drafts { by: None, ..drafts(r) };
        let engine = Engine { drafts: Some(drafts), ..Engine::serving(Graphs::Pieces { most: 512 }, 1, r) };
        serve(engine, Traffic { accepted: 2.0, ..chunked(r) }, r, p);
    }),
    row(Set::Hard, "pipeline parallel, two batches in turn", |r, p| {
        let engine = Engine::serving(Graphs::None, 1, r);
        let traffic = chunked(r);
        let mut schedulers = [Scheduler::new(traffic), Scheduler::new(traffic)];
        for turn in 0..STEPS {
            let progress = turn as f64 / STEPS as f64;
            let turn = schedulers[turn as usize % 2].turn(progress, r);
            engine.run(&turn, MAIN, r, p);
        }
    }),
    row(Set::Hard, "a small model and a large one on one stream", |r, p| {
        let engines = [Engine::plain(r), Engine { machine: embedder(r).machine, ..Engine::plain(r) }];
        one_stream(engines, r, p);
    }),
    row(Set::Hard, "training by one thread", |r, p| {
        Loop { is_by_two_threads: false, ..Loop::draw(r) }.run(STEPS / 2, r, p);
    }),
    row(Set::Hard, "training by one graph", |r, p| {
        Loop::draw(r).run_captured(STEPS, r, p);
    }),
];

/// Turns of a run.
const STEPS: u64 = 500;
const MAIN: u64 = 0x5000;
const PROMPTS_FIRST: Policy = Policy::PromptsFirst { tokens_max: 8_192 };

fn chunked(rng: &mut Rng) -> Traffic {
    let tokens_max = [1_024, 2_048, 8_192][rng.below(3) as usize];
    chat(rng, Policy::Chunked { tokens_max })
}

fn ranks(rng: &mut Rng) -> u64 {
    [2, 4, 8][rng.below(3) as usize]
}

fn wave(progress: f64) -> f64 {
    2.0 + 120.0 * (std::f64::consts::PI * progress).sin().powi(2)
}

fn night(progress: f64) -> f64 {
    if progress < 0.2 { 60.0 } else { 1.0 }
}

fn bursts(progress: f64) -> f64 {
    if (progress * 10.0).fract() < 0.15 { 400.0 } else { 10.0 }
}

/// Returns traffic with prompts and answers of hundreds of tokens, at a random load.
fn chat(rng: &mut Rng, policy: Policy) -> Traffic {
    const LOADS: [Load; 4] = [|_| 1.5, |_| 8.0, |_| 30.0, |_| 100.0];
    Traffic {
        prompt: Lengths::new(rng.uniform(300.0, 1_500.0), rng.uniform(0.4, 0.9), 16_000.0),
        answer: Lengths::new(rng.uniform(80.0, 400.0), 0.5, 2_000.0),
        load: LOADS[rng.below(4) as usize],
        policy,
        accepted: 1.0,
    }
}

fn embedder(rng: &mut Rng) -> Engine {
    let kernels = if rng.chance(0.5) { Kernels::plain(rng) } else { Kernels::serving(rng) };
    let machine = Machine { model: Model::encoder(rng), kernels: Kernels { sampling: 2, ..kernels } };
    let engine = Engine::new(machine, Graphs::None, rng);
    let io = crate::engines::Io { bytes_back: 4 * machine.model.hidden, bytes_of_request: 8, ..engine.io };
    Engine { io, ..engine }
}

fn with_experts(engine: Engine, rng: &mut Rng) -> Engine {
    let machine = Machine { model: engine.machine.model.with_experts(rng), ..engine.machine };
    Engine { machine, ..engine }
}

fn drafts(rng: &mut Rng) -> Drafts {
    let small = Model { layers: 2, ..Model::draw(rng, 1) };
    let by = Some(Machine { model: small, kernels: Kernels::serving(rng) });
    Drafts { by, is_by_graph: false, tokens: 2 + rng.below(4) }
}

fn serve(engine: Engine, traffic: Traffic, rng: &mut Rng, program: &mut Program) {
    let mut scheduler = Scheduler::new(traffic);
    for turn in 0..STEPS {
        let turn = scheduler.turn(turn as f64 / STEPS as f64, rng);
        engine.run(&turn, MAIN, rng, program);
    }
}

/// Serves transcripts. The prompt of a transcript is the output of its encoder; its few initial tokens are part of
/// the first answer.
fn serve_transcripts(engine: Engine, traffic: Traffic, rng: &mut Rng, program: &mut Program) {
    let mut scheduler = Scheduler::new(traffic);
    for turn in 0..STEPS {
        let mut turn = scheduler.turn(turn as f64 / STEPS as f64, rng);
        if turn.prompts > 0 {
            let heard = Engine { encoder: None, ..engine };
            let (encoder, tokens) = engine.encoder.expect("an encoder");
            turn.prompt_tokens = tokens * turn.prompts;
            Engine { machine: encoder, ..heard }.run(&turn, MAIN, rng, program);
            continue;
        }
        Engine { encoder: None, ..engine }.run(&turn, MAIN, rng, program);
    }
}

fn two_models(rng: &mut Rng, program: &mut Program) {
    let chat_engine = Engine::serving(Graphs::Answers { most: 256 }, 1, rng);
    let mut chatting = Scheduler::new(chat(rng, PROMPTS_FIRST));
    let embedding = embedder(rng);
    let policy = Policy::PromptsOnly { tokens_max: 16_384, requests_max: 32 };
    let mut documents =
        Scheduler::new(Traffic { prompt: Lengths::new(300.0, 0.6, 2_048.0), ..chat(rng, policy) });
    for turn in 0..STEPS {
        let progress = turn as f64 / STEPS as f64;
        match rng.chance(0.3) {
            true => embedding.run(&documents.turn(progress, rng), MAIN + 8, rng, program),
            false => chat_engine.run(&chatting.turn(progress, rng), MAIN, rng, program),
        }
    }
}

fn one_stream(engines: [Engine; 2], rng: &mut Rng, program: &mut Program) {
    let [large, small] = engines;
    let mut answers = Scheduler::new(chat(rng, Policy::Batches { requests: 1 }));
    let policy = Policy::PromptsOnly { tokens_max: 4_096, requests_max: 8 };
    let mut queries = Scheduler::new(Traffic { prompt: Lengths::new(60.0, 0.5, 512.0), ..chat(rng, policy) });
    for turn in 0..STEPS {
        let progress = turn as f64 / STEPS as f64;
        match rng.chance(0.2) {
            true => small.run(&queries.turn(progress, rng), MAIN, rng, program),
            false => large.run(&answers.turn(progress, rng), MAIN, rng, program),
        }
    }
}

/// Runs the start of an engine: the largest possible pass, then a pass and a capture for each size.
fn start_up(engine: &Engine, program: &mut Program) {
    let eager = Engine { graphs: Graphs::None, ..*engine };
    let dummy = |tokens| crate::machine::Pass {
        tokens,
        requests: tokens,
        context: 1,
        ..crate::machine::Pass::default()
    };
    for tokens in [8_192, 8_192] {
        program.close(&[Segment::of(eager.machine.eager(&dummy(tokens)), None)]);
    }
    for size in (0..=64).rev() {
        let mut work = eager.machine.eager(&dummy(crate::engines::captured(size * 8).max(1)));
        work.set(Counter::Captured, work.of(Counter::Launches));
        program.close(&[Segment::of(work, None)]);
    }
}
