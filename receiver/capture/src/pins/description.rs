//! Stored descriptions of processes, for those that end while no agent runs: /proc no longer has them, and their totals
//! would belong to no service.
//!
//! A description is the start of the process and tagged texts that end with NUL, which no text contains. What does not
//! fit is left out, arguments first.

use event::{ProcessId, ProcessInfo};

/// Bytes of a stored description.
pub(super) const BYTES: usize = 2_048;

pub(super) type Description = [u8; BYTES];

const EXECUTABLE: u8 = b'e';
const PATH: u8 = b'p';
const CONTAINER: u8 = b'c';
const KEY: u8 = b'k';
const VALUE: u8 = b'v';
const ARGUMENT: u8 = b'a';

pub(super) fn encode(info: &ProcessInfo) -> Description {
    let mut out = [0; BYTES];
    let (start, mut rest) = out.split_at_mut(8);
    start.copy_from_slice(&info.process.start_ns.to_ne_bytes());
    let own =
        [(EXECUTABLE, &info.executable), (PATH, &info.executable_path), (CONTAINER, &info.container_id)];
    let texts = own.into_iter().map(|text| vec![text]);
    let attributes = info.attributes.iter().map(|(key, value)| vec![(KEY, key), (VALUE, value)]);
    let arguments = info.command.iter().map(|argument| vec![(ARGUMENT, argument)]);
    for texts in texts.chain(attributes).chain(arguments) {
        let bytes: Vec<u8> =
            texts.iter().flat_map(|(tag, text)| [&[*tag], text.as_bytes(), &[0]].concat()).collect();
        let Some((head, tail)) = rest.split_at_mut_checked(bytes.len()) else { break };
        head.copy_from_slice(&bytes);
        rest = tail;
    }
    out
}

/// Sets what a description says of a process. Returns false if it is of another one.
pub(super) fn decode(description: &Description, process: ProcessId, into: &mut ProcessInfo) -> bool {
    let (start, texts) = description.split_at(8);
    if start != process.start_ns.to_ne_bytes() {
        return false;
    }
    (into.command, into.attributes) = (Vec::new(), Vec::new());
    let mut key = String::new();
    for text in texts.split(|byte| *byte == 0).take_while(|text| !text.is_empty()) {
        let (tag, text) = (text[0], String::from_utf8_lossy(&text[1..]).into_owned());
        match tag {
            EXECUTABLE => into.executable = text,
            PATH => into.executable_path = text,
            CONTAINER => into.container_id = text,
            KEY => key = text,
            VALUE => into.attributes.push((std::mem::take(&mut key), text)),
            _ => into.command.push(text),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(arguments: usize) -> ProcessInfo {
        ProcessInfo {
            process: ProcessId { pid: 7, start_ns: 9 },
            executable: "python3".to_owned(),
            executable_path: "/usr/bin/python3".to_owned(),
            command: vec!["serve".to_owned(); arguments],
            attributes: vec![("service.name".to_owned(), "llm".to_owned()), ("a".to_owned(), String::new())],
            ..ProcessInfo::default()
        }
    }

    fn decoded(info: &ProcessInfo) -> ProcessInfo {
        let mut out = ProcessInfo { process: info.process, ..ProcessInfo::default() };
        assert!(decode(&encode(info), info.process, &mut out));
        out
    }

    #[test]
    fn description_is_read_as_stored() {
        assert_eq!(decoded(&info(3)), info(3));
        assert!(!decode(&encode(&info(3)), ProcessId { pid: 7, start_ns: 8 }, &mut info(0)));
    }

    #[test]
    fn arguments_that_do_not_fit_are_left_out() {
        let found = decoded(&info(1_000));
        assert!((200..300).contains(&found.command.len()), "{}", found.command.len());
        assert_eq!(ProcessInfo { command: Vec::new(), ..found }, info(0));
    }
}
