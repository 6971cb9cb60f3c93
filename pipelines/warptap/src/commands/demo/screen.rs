//! The terminal output of the demo: each phase against its baseline, the peer wait of each rank, outliers and
//! stragglers as they are found, and the cost of the probes.

use std::path::Path;
use std::time::Instant;

use event::{Account, Event};
use gpu::Found;
use steps::{Finding, Outlier, Phase, Step, outlier_bucket};

use crate::commands::ranks::verdict;
use crate::commands::summary::Summary;
use crate::commands::terminal::{Terminal, human};
use crate::printable::printable;

const BAR: usize = 30;
/// Outliers shown individually per second; all are counted.
const OUTLIERS_PER_SECOND_MAX: u32 = 4;
/// The maximum number of displayed ranks.
const RANKS_MAX: usize = 8;

/// The last step of a phase and the phase's baseline.
#[derive(Clone, Copy, Default)]
struct Latest {
    duration_ns: f64,
    mean_ns: f64,
    p95_ns: f64,
}

/// The state of the terminal output.
pub(super) struct Screen {
    terminal: Terminal,
    began: Instant,
    summary: Summary,
    latest: Vec<(Phase, Latest)>,
    account: Account,
    /// Time of the first event, ns; counters are since then.
    first_ns: Option<u64>,
    /// The current second and the outliers shown in it.
    shown: (u64, u32),
}

impl Screen {
    pub(super) fn new(scenario: &str, story: &str) -> Screen {
        let mut terminal = Terminal::new();
        let title = terminal.paint(36, &format!("warptap demo: {scenario}"));
        terminal.line(&format!("{title}: {story}"));
        Screen {
            terminal,
            began: Instant::now(),
            summary: Summary::default(),
            latest: Vec::new(),
            account: Account::default(),
            first_ns: None,
            shown: (0, 0),
        }
    }

    pub(super) fn live(&mut self, attach: &str) {
        self.terminal.line(&format!("real probes ({attach}) on stub GPU libraries\n"));
        self.began = Instant::now();
    }

    pub(super) fn recorded(&mut self, reason: &str) {
        self.terminal.line(&format!("replaying a recording because probes cannot be attached: {reason}\n"));
        self.began = Instant::now();
    }

    /// Stores the time of the first event and the latest counters of the probes.
    pub(super) fn observe(&mut self, event: &Event) {
        self.first_ns = self.first_ns.or(event.at_ns());
        if let Event::Account(account) = event {
            self.set_account((**account).clone());
        }
    }

    /// Stores the counters of the probes.
    pub(super) fn set_account(&mut self, account: Account) {
        self.account = account;
    }

    /// Adds a finding to the summary; shows outliers, baseline shifts and collective findings.
    pub(super) fn see(&mut self, found: Found<'_>) {
        self.summary.add(found);
        match found {
            Found::Collective(finding) => {
                if let Some((is_bad, text)) = verdict(finding) {
                    let text = self.terminal.paint(if is_bad { 31 } else { 32 }, &text);
                    self.log_line(&text);
                }
            }
            Found::Step(Finding::Step(step)) => self.step(step),
            Found::Step(Finding::BaselineShift(shift)) => {
                let (before, after) = (human(shift.before.p95_ns), human(shift.after.p95_ns));
                let text =
                    format!("{} has a new baseline: p95 was {before}, is now {after}", shift.phase.as_str());
                let text = self.terminal.paint(36, &text);
                self.log_line(&text);
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let level = step.baseline.unwrap_or_default();
        let latest =
            Latest { duration_ns: step.duration_ns as f64, mean_ns: level.mean_ns, p95_ns: level.p95_ns };
        match self.latest.iter_mut().find(|(phase, _)| *phase == step.phase) {
            Some((_, known)) => *known = latest,
            None => {
                self.latest.push((step.phase, latest));
                self.latest.sort_by_key(|(phase, _)| phase.as_str());
            }
        }
        if step.outlier != Outlier::None && self.may_show() {
            self.outlier(step, level.p95_ns);
        }
    }

    fn may_show(&mut self) -> bool {
        let second = self.began.elapsed().as_secs();
        self.shown = if self.shown.0 == second { (second, self.shown.1 + 1) } else { (second, 1) };
        self.shown.1 <= OUTLIERS_PER_SECOND_MAX
    }

    fn outlier(&mut self, step: &Step, p95_ns: f64) {
        let colour = if step.outlier == Outlier::Ratio3 { 31 } else { 33 };
        let what = format!(
            "{} {} took {}, {:.1}x its p95 of {}",
            step.outlier.as_str(),
            step.phase.as_str(),
            human(step.duration_ns as f64),
            step.ratio,
            human(p95_ns)
        );
        let why = match step.causes.first() {
            Some(cause) => {
                format!(
                    ": {} {:.0} % ({})",
                    cause.kind.as_str(),
                    cause.share * 100.0,
                    printable(&cause.evidence)
                )
            }
            None => ": no cause found on the host".to_owned(),
        };
        let what = self.terminal.paint(colour, &what);
        self.log_line(&format!("{what}{why}"));
    }

    fn log_line(&mut self, text: &str) {
        let at = self.began.elapsed().as_secs_f64();
        self.terminal.line(&format!("{at:6.1} s  {text}"));
    }

    /// Redraws the status lines.
    pub(super) fn draw(&mut self) {
        let mut lines = vec![String::new()];
        lines.extend(self.latest.iter().map(|(phase, latest)| self.phase(*phase, latest)));
        lines.extend(self.ranks());
        lines.push(self.cost());
        self.terminal.status(&lines);
    }

    /// Returns a line per rank: its peer wait relative to the longest. A late rank waits least.
    fn ranks(&self) -> impl Iterator<Item = String> {
        let ranks = || self.summary.ranks.iter().take(RANKS_MAX);
        let longest = ranks().map(|(_, line)| line.latest_wait_ns).fold(1.0, f64::max);
        ranks().map(move |(name, line)| {
            let filled = (line.latest_wait_ns / longest * BAR as f64).clamp(0.0, BAR as f64) as usize;
            let (colour, note) = if line.is_late { (31, "  late: its peers wait for it") } else { (32, "") };
            let bar = self.terminal.paint(colour, &"#".repeat(filled));
            let (empty, wait) = (".".repeat(BAR - filled), human(line.latest_wait_ns));
            format!("{name:<8} {wait:>9}  {bar}{empty}  peer wait{note}")
        })
    }

    fn phase(&self, phase: Phase, latest: &Latest) -> String {
        let (count, mean, outliers) = self.summary.phase(phase);
        let name = phase.as_str();
        if latest.p95_ns == 0.0 {
            return format!(
                "{name:<8} {:>9}  {count} steps, mean {}, learning the baseline",
                human(latest.duration_ns),
                human(mean)
            );
        }
        let filled =
            ((latest.duration_ns / latest.p95_ns) * BAR as f64 / 2.0).clamp(1.0, BAR as f64) as usize;
        let colour = match outlier_bucket(latest.duration_ns / latest.p95_ns) {
            Outlier::None => 32,
            Outlier::Ratio15 | Outlier::Ratio2 => 33,
            Outlier::Ratio3 => 31,
        };
        let bar = self.terminal.paint(colour, &"#".repeat(filled));
        let empty = ".".repeat(BAR - filled);
        format!(
            "{name:<8} {:>9}  {bar}{empty}  baseline {} p95 {}  {count} steps  {outliers} outliers",
            human(latest.duration_ns),
            human(latest.mean_ns),
            human(latest.p95_ns)
        )
    }

    fn cost(&self) -> String {
        let a = &self.account;
        let share = a.runs as f64 * a.run_cost_ns as f64 / 1e9 / self.counted_s().max(1e-9) * 100.0;
        format!(
            "probes   {} hits, {} folded in the kernel, {} records, {} lost; {share:.2} % of one core at {} a hit",
            a.hits,
            a.folded,
            a.records,
            a.lost(),
            human(a.run_cost_ns as f64)
        )
    }

    /// Returns the time that the counters are of, in seconds.
    fn counted_s(&self) -> f64 {
        self.account.at_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9
    }

    /// Returns what became of every hit, and in which time.
    fn fates(&self) -> String {
        let a = &self.account;
        if a.hits == 0 {
            return "no hit was counted".to_owned();
        }
        let balanced =
            if a.is_balanced() { "every hit is accounted for" } else { "some calls were in progress" };
        format!(
            "{balanced}: {} folded + {} sampled out + {} delivered + {} dropped in {:.1} s",
            a.folded,
            a.sampled_out,
            a.delivered,
            a.lost(),
            self.counted_s()
        )
    }

    /// Prints the summary table, the counters and the path of the telemetry file.
    pub(super) fn end(&mut self, path: &Path, lines: u64) {
        self.terminal.status(&[]);
        self.terminal.line("");
        self.summary.table().iter().for_each(|row| self.terminal.line(row));
        let cost = self.cost();
        self.terminal.line(&cost);
        self.terminal.line(&format!("         {}", self.fates()));
        self.terminal.line(&format!("OTLP     {lines} requests, not sent: {}", path.display()));
    }
}
