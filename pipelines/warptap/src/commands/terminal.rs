//! Output of long-running commands: a status that is redrawn in place and permanent lines; plain lines if the output
//! is not a terminal.

use std::io::{IsTerminal as _, Write as _, stdout};

/// The output of a long-running command.
pub(crate) struct Terminal {
    is_live: bool,
    status_lines: usize,
}

impl Terminal {
    /// Creates an output to standard output, which redraws the status on a terminal.
    pub(crate) fn new() -> Terminal {
        Terminal { is_live: stdout().is_terminal(), status_lines: 0 }
    }

    /// Prints a permanent line. Errors such as a closed output are ignored.
    pub(crate) fn line(&mut self, text: &str) {
        self.clear();
        _ = writeln!(stdout(), "{text}");
    }

    /// Replaces the status; if the output is not a terminal, prints it.
    pub(crate) fn status(&mut self, lines: &[String]) {
        self.clear();
        for line in lines {
            _ = writeln!(stdout(), "{line}");
        }
        if self.is_live {
            self.status_lines = lines.len();
        }
        _ = stdout().flush();
    }

    /// Returns the text in a colour if the output is a terminal: 31 red, 32 green, 33 yellow, 36 cyan.
    pub(crate) fn paint(&self, colour: u8, text: &str) -> String {
        if self.is_live { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn clear(&mut self) {
        if self.status_lines > 0 {
            _ = write!(stdout(), "\x1b[{}A\x1b[J", self.status_lines);
            self.status_lines = 0;
        }
    }
}

/// Formats a count with its noun in singular or plural, such as `1 step`, `2 steps` and `2 batches`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ if noun.ends_with("ch") => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

/// Formats a duration in nanoseconds with a suitable unit.
pub(crate) fn human(ns: f64) -> String {
    match ns {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, human};

    #[test]
    fn counts_agree_with_their_noun() {
        let cases = [(1, "step", "1 step"), (2, "batch", "2 batches"), (0, "library", "0 libraries")];
        cases.into_iter().for_each(|(number, noun, text)| assert_eq!(count(number, noun), text));
    }

    #[test]
    fn durations_are_written_in_the_unit_that_fits() {
        let cases = [(12.0, "12 ns"), (1_500.0, "1.5 µs"), (23_400_000.0, "23.4 ms"), (2.5e9, "2.50 s")];
        cases.into_iter().for_each(|(ns, text)| assert_eq!(human(ns), text));
    }
}
