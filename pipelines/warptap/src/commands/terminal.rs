//! Talking to a person at a terminal: a status that is drawn over, lines that stay, and plain lines where the output
//! is no terminal.

use std::io::{IsTerminal as _, Write as _, stdout};

/// The output of a command that runs for a while.
pub(crate) struct Terminal {
    is_live: bool,
    status_lines: usize,
}

impl Terminal {
    /// Standard output, drawn over where it is a terminal.
    pub(crate) fn new() -> Terminal {
        Terminal { is_live: stdout().is_terminal(), status_lines: 0 }
    }

    /// A line that stays. A closed output is nobody's loss.
    pub(crate) fn line(&mut self, text: &str) {
        self.clear();
        _ = writeln!(stdout(), "{text}");
    }

    /// Replaces the status. Where it cannot be drawn over, it is printed as it stands.
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

    /// Text in a colour, where there is a terminal to show it: 31 red, 32 green, 33 yellow, 36 cyan.
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

/// Nanoseconds as a person writes them.
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
    use super::human;

    #[test]
    fn durations_are_written_in_the_unit_that_fits() {
        let cases = [(12.0, "12 ns"), (1_500.0, "1.5 µs"), (23_400_000.0, "23.4 ms"), (2.5e9, "2.50 s")];
        cases.into_iter().for_each(|(ns, text)| assert_eq!(human(ns), text));
    }
}
