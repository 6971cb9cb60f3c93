//! A line of a script: a word, its arguments, its keys.

use super::parse::Result;

/// Characters of a line.
const LENGTH_MAX: usize = 400;

/// A line that says something.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    pub(super) word: &'a str,
    pub(super) arguments: Vec<&'a str>,
    pub(super) keys: Vec<(&'a str, &'a str)>,
}

/// The lines that say something; for one that cannot be split, its number and what is wrong with it.
pub(super) fn lines(text: &str) -> std::result::Result<Vec<Line<'_>>, (usize, String)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    numbered.filter_map(|(number, line)| split(number, line).transpose()).collect()
}

fn split(number: usize, line: &str) -> std::result::Result<Option<Line<'_>>, (usize, String)> {
    let said = line.split('#').next().unwrap_or_default();
    if said.len() > LENGTH_MAX {
        return Err((
            number,
            format!("the line has {} characters; at most {LENGTH_MAX} are read", said.len()),
        ));
    }
    let mut parts = said.split_whitespace();
    let Some(word) = parts.next() else { return Ok(None) };
    let mut split = Line { number, word, arguments: Vec::new(), keys: Vec::new() };
    for part in parts {
        match part.split_once('=') {
            Some(("" | "at", "")) | Some((_, "")) => {
                return Err((number, format!("'{part}' lacks its value")));
            }
            Some((key, _)) if split.key(key).is_some() => {
                return Err((number, format!("'{key}' stands twice")));
            }
            Some((key, value)) => split.keys.push((key, value)),
            None if !split.keys.is_empty() => {
                return Err((number, format!("'{part}' stands behind a key; expected arguments first")));
            }
            None => split.arguments.push(part),
        }
    }
    Ok(Some(split))
}

impl<'a> Line<'a> {
    /// The value of a key.
    pub(super) fn key(&self, name: &str) -> Option<&'a str> {
        self.keys.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The argument of a word that takes one and no key.
    pub(super) fn only_argument(&self) -> Result<&'a str> {
        self.check((1, 1), &[])?;
        Ok(self.arguments[0])
    }

    /// Refuses a wrong number of arguments and unknown keys.
    pub(super) fn check(&self, (least, most): (usize, usize), keys: &[&[&str]]) -> Result<()> {
        let (count, word) = (self.arguments.len(), self.word);
        if count < least || count > most {
            let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err(format!("{word} has {count} arguments; expected {expected}"));
        }
        let known = || keys.iter().flat_map(|k| k.iter());
        match self.keys.iter().find(|(key, _)| !known().any(|k| k == key)) {
            None => Ok(()),
            Some((key, _)) => {
                let mut known: Vec<_> = known().copied().collect();
                known.sort_unstable();
                Err(format!("{word} has no key '{key}'; expected one of {}", known.join(", ")))
            }
        }
    }
}
