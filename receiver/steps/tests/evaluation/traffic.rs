//! Requests arrive and are answered: the turns of an engine's scheduler.
//!
//! Phases follow from scheduling. The tokens of a turn are not random; they result from the policy, the random lengths of
//! prompts and answers, and the current load.

use steps::Phase;

use crate::testing::Rng;

/// Lengths, log-normal between bounds.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    pub median: f64,
    /// The standard deviation of the natural logarithm; 0 if all are equal.
    pub spread: f64,
    pub most: f64,
}

impl Lengths {
    pub const fn new(median: f64, spread: f64, most: f64) -> Lengths {
        Lengths { median, spread, most }
    }

    pub fn draw(&self, rng: &mut Rng) -> u64 {
        (self.median * (self.spread * rng.normal()).exp()).clamp(1.0, self.most) as u64
    }
}

/// The number of concurrently answered requests over the course of a run, from 0 to 1.
pub type Load = fn(f64) -> f64;

/// The policy of a scheduler.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// Prompts alone, as many as fit, before answers continue.
    PromptsFirst { tokens_max: u64 },
    /// Answers continue, and the rest of the budget is for prompts.
    Chunked { tokens_max: u64 },
    /// A batch is read and answered before the next one.
    Batches { requests: u64 },
    /// Prompts alone: answers are generated elsewhere, or not at all.
    PromptsOnly { tokens_max: u64, requests_max: u64 },
    /// Answers alone: prompts are read elsewhere.
    AnswersOnly,
}

/// The requests of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub prompt: Lengths,
    pub answer: Lengths,
    pub load: Load,
    pub policy: Policy,
    /// Tokens of a request in one turn: more than one with drafts.
    pub accepted: f64,
}

/// The next turn of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub phase: Phase,
    /// Prompt tokens read.
    pub prompt_tokens: u64,
    /// Requests whose prompts are read.
    pub prompts: u64,
    /// Requests with an answer token.
    pub answers: u64,
    /// The average context of those requests, in tokens.
    pub context: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    unread: u64,
    context: u64,
    unanswered: f64,
}

/// A running scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    traffic: Traffic,
    waiting: Vec<Request>,
    running: Vec<Request>,
    /// Arrivals that are due, as a fraction.
    due: f64,
}

/// The most concurrently answered requests.
const RUNNING_MAX: usize = 256;
const WAITING_MAX: usize = 512;

impl Scheduler {
    pub fn new(traffic: Traffic) -> Scheduler {
        Scheduler { traffic, waiting: Vec::new(), running: Vec::new(), due: 0.0 }
    }

    /// Returns the next turn; idle ones are skipped.
    pub fn turn(&mut self, progress: f64, rng: &mut Rng) -> Turn {
        self.arrive(progress, rng);
        if self.waiting.is_empty() && self.running.is_empty() {
            self.enter(rng);
        }
        match self.traffic.policy {
            Policy::PromptsFirst { tokens_max } => self.prompts_first(tokens_max, RUNNING_MAX),
            Policy::Chunked { tokens_max } => self.chunked(tokens_max),
            Policy::Batches { requests } => self.batch(requests, rng),
            Policy::PromptsOnly { tokens_max, requests_max } => {
                let turn = self.prompts_first(tokens_max, requests_max as usize);
                self.running.clear();
                turn
            }
            Policy::AnswersOnly => {
                self.running.append(&mut self.waiting);
                self.running.truncate(RUNNING_MAX);
                self.running.iter_mut().for_each(|r| r.unread = 0);
                self.answer()
            }
        }
    }

    fn arrive(&mut self, progress: f64, rng: &mut Rng) {
        let per_turn = (self.traffic.load)(progress) * self.traffic.accepted / self.traffic.answer.median;
        // Bursts of arrivals: gaps are exponential.
        self.due += per_turn * -rng.uniform(1e-9, 1.0).ln();
        while self.due >= 1.0 && self.waiting.len() < WAITING_MAX {
            self.due -= 1.0;
            self.enter(rng);
        }
        self.due = self.due.min(WAITING_MAX as f64);
    }

    fn enter(&mut self, rng: &mut Rng) {
        let context = 0;
        let unanswered = self.traffic.answer.draw(rng) as f64;
        self.waiting.push(Request { unread: self.traffic.prompt.draw(rng), context, unanswered });
    }

    fn prompts_first(&mut self, tokens_max: u64, requests_max: usize) -> Turn {
        let room = requests_max.saturating_sub(self.running.len());
        let mut read = Vec::new();
        let mut tokens = 0;
        while read.len() < room && !self.waiting.is_empty() {
            let next = self.waiting[0].unread.min(tokens_max);
            if !read.is_empty() && tokens + next > tokens_max {
                break;
            }
            tokens += next;
            read.push(done_reading(self.waiting.remove(0)));
        }
        if read.is_empty() {
            return self.answer();
        }
        let prompts = read.len() as u64;
        self.running.append(&mut read);
        Turn { phase: Phase::Prefill, prompt_tokens: tokens, prompts, answers: 0, context: 0 }
    }

    fn chunked(&mut self, tokens_max: u64) -> Turn {
        let mut budget = tokens_max.saturating_sub(self.running.len() as u64);
        let (mut tokens, mut prompts) = (0, 0);
        let mut turn = self.answer();
        while budget > 0 && !self.waiting.is_empty() && self.running.len() < RUNNING_MAX {
            let chunk = self.waiting[0].unread.min(budget);
            (tokens, prompts, budget) = (tokens + chunk, prompts + 1, budget - chunk);
            self.waiting[0].unread -= chunk;
            self.waiting[0].context += chunk;
            if self.waiting[0].unread > 0 {
                break;
            }
            self.running.push(self.waiting.remove(0));
        }
        if tokens > 0 {
            turn.phase = if turn.answers > 0 { Phase::Mixed } else { Phase::Prefill };
        }
        Turn { prompt_tokens: tokens, prompts, ..turn }
    }

    fn batch(&mut self, requests: u64, rng: &mut Rng) -> Turn {
        if !self.running.is_empty() {
            return self.answer();
        }
        while (self.waiting.len() as u64) < requests {
            self.enter(rng);
        }
        let batch: Vec<Request> = self.waiting.drain(..requests as usize).collect();
        let longest = batch.iter().map(|r| r.unread).max().unwrap_or(1);
        // Padded to the longest, and answered until the longest answer is complete.
        let unanswered = batch.iter().map(|r| r.unanswered).fold(1.0, f64::max);
        self.running =
            batch.iter().map(|_| done_reading(Request { unread: longest, context: 0, unanswered })).collect();
        let prompt_tokens = longest * requests;
        Turn { phase: Phase::Prefill, prompt_tokens, prompts: requests, answers: 0, context: 0 }
    }

    /// Gives all running requests their next tokens.
    fn answer(&mut self) -> Turn {
        let answers = self.running.len() as u64;
        let context = self.running.iter().map(|r| r.context).sum::<u64>() / answers.max(1);
        for request in &mut self.running {
            request.unanswered -= self.traffic.accepted;
            request.context += self.traffic.accepted as u64;
        }
        self.running.retain(|r| r.unanswered > 0.0);
        Turn { phase: Phase::Decode, prompt_tokens: 0, prompts: 0, answers, context }
    }
}

fn done_reading(request: Request) -> Request {
    Request { unread: 0, context: request.context + request.unread, ..request }
}
