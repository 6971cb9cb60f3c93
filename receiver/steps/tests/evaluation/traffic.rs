//! Requests come, are read, answered and go: what an engine's scheduler makes of them, turn by turn.
//!
//! The one idea: phases follow from scheduling. How many tokens a turn has is not drawn; it is what the policy does
//! with prompts and answers of drawn lengths at the load of that moment.

use steps::Phase;

use crate::testing::Rng;

/// Lengths, log-normal between bounds.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    pub median: f64,
    /// Of the natural logarithm; 0 where all are the same.
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

/// Requests that are answered at once, over the course of a run from 0 to 1.
pub type Load = fn(f64) -> f64;

/// What a scheduler does first.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// Prompts alone, as many as fit, before answers go on.
    PromptsFirst { tokens_max: u64 },
    /// Answers go on, and what is left of the budget reads prompts.
    Chunked { tokens_max: u64 },
    /// A batch is read and answered before the next one.
    Batches { requests: u64 },
    /// Prompts alone, and no answers: they are given elsewhere, or there are none.
    PromptsOnly { tokens_max: u64, requests_max: u64 },
    /// Answers alone: prompts are read elsewhere.
    AnswersOnly,
}

/// A workload's requests.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub prompt: Lengths,
    pub answer: Lengths,
    pub load: Load,
    pub policy: Policy,
    /// Tokens that a request gets in one turn: more than one where drafts are verified.
    pub accepted: f64,
}

/// What the engine runs next.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub phase: Phase,
    /// Prompt tokens read.
    pub prompt_tokens: u64,
    /// Requests whose prompts are read.
    pub prompts: u64,
    /// Requests that are answered.
    pub answers: u64,
    /// Tokens that each of those has behind it, on average.
    pub context: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    unread: u64,
    context: u64,
    unanswered: f64,
}

/// A scheduler at work.
#[derive(Clone, Debug)]
pub struct Scheduler {
    traffic: Traffic,
    waiting: Vec<Request>,
    running: Vec<Request>,
    /// Arrivals that are due, in parts.
    due: f64,
}

/// Requests that are answered at once, at most.
const RUNNING_MAX: usize = 256;
const WAITING_MAX: usize = 512;

impl Scheduler {
    pub fn new(traffic: Traffic) -> Scheduler {
        Scheduler { traffic, waiting: Vec::new(), running: Vec::new(), due: 0.0 }
    }

    /// The next turn; idle ones are passed over.
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
        // Padded to the longest, and answered until the longest answer is done.
        let unanswered = batch.iter().map(|r| r.unanswered).fold(1.0, f64::max);
        self.running =
            batch.iter().map(|_| done_reading(Request { unread: longest, context: 0, unanswered })).collect();
        let prompt_tokens = longest * requests;
        Turn { phase: Phase::Prefill, prompt_tokens, prompts: requests, answers: 0, context: 0 }
    }

    /// All running requests get their next tokens.
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
