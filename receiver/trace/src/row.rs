//! An entry of `traceEvents`: the fields that are needed, in any order.
//!
//! Other fields are skipped without storing them, as are all fields of an entry once its category is known to be
//! irrelevant, which in Kineto's order is immediately.

use probe_abi::Direction;

use super::TraceError;
use super::json::{Json, Kind};
use super::number::{integer, nanoseconds, unsigned};

/// The categories of calls of GPU libraries, for messages.
pub(super) const CALLS: &str = "cuda_runtime, cuda_driver, hip_runtime or Runtime";
/// Maximum bytes of a category's name that are stored.
const CATEGORY_BYTES_MAX: usize = 64;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Category {
    /// No category so far.
    #[default]
    Unset,
    /// A call of the runtime or driver of CUDA or HIP.
    Call,
    /// A kernel on the device.
    Kernel,
    /// A copy on the device.
    Copy,
    /// A fill on the device.
    Fill,
    /// The object that a call waited for.
    Sync,
    /// A label set by the program.
    Annotation,
    /// Another entry.
    Other,
}

impl Category {
    /// Returns the category of a name; the capitalized ones are those of Kineto in 2021.
    fn of(name: &[u8]) -> Category {
        match name {
            b"cuda_runtime" | b"cuda_driver" | b"hip_runtime" | b"Runtime" => Category::Call,
            b"kernel" | b"Kernel" => Category::Kernel,
            b"gpu_memcpy" | b"Memcpy" => Category::Copy,
            b"gpu_memset" | b"Memset" => Category::Fill,
            b"cuda_sync" => Category::Sync,
            b"user_annotation" => Category::Annotation,
            _ => Category::Other,
        }
    }
}

/// An entry. Times are nanoseconds on the clock of the trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// The letter of `ph`: X for a time range, M for a name.
    pub(super) phase: u8,
    pub(super) category: Category,
    /// Name of the category, at most [`CATEGORY_BYTES_MAX`] bytes of it.
    pub(super) category_name: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) begin_ns: Option<i64>,
    pub(super) duration_ns: i64,
    pub(super) args: Args,
}

/// The fields of `args`.
#[derive(Clone, Debug, Default)]
pub(super) struct Args {
    pub(super) correlation: Option<u64>,
    pub(super) device: Option<u32>,
    pub(super) stream: Option<u32>,
    pub(super) grid: Option<[u64; 3]>,
    pub(super) block: Option<[u64; 3]>,
    pub(super) bytes: Option<u64>,
    pub(super) direction: Option<Direction>,
    pub(super) address: Option<u64>,
    /// FNV-1a of the name of the launched kernel.
    pub(super) kernel: Option<u64>,
    /// Stream of the awaited event.
    pub(super) awaited_stream: Option<u32>,
    /// Correlation of the call that recorded the awaited event.
    pub(super) awaited_record: Option<u64>,
    /// Name in an M entry.
    pub(super) label: Vec<u8>,
}

impl Row {
    /// Reads the next entry into `self`, reusing the memory of its strings.
    pub(super) fn read(&mut self, json: &mut Json<'_>) -> Result<(), TraceError> {
        let texts = [&mut self.name, &mut self.args.label, &mut self.category_name];
        let [name, label, category_name] = texts.map(|text| {
            text.clear();
            std::mem::take(text)
        });
        *self = Row { name, category_name, args: Args { label, ..Args::default() }, ..Row::default() };
        json.begin_object()?;
        let mut first = true;
        while let Some(key) = json.next_key(&mut first)? {
            let field = Field::of(key);
            self.take(field, json)?;
        }
        Ok(())
    }

    fn is_of_no_use(&self) -> bool {
        self.category == Category::Other || !matches!(self.phase, 0 | b'X' | b'M')
    }

    fn take(&mut self, field: Field, json: &mut Json<'_>) -> Result<(), TraceError> {
        match field {
            Field::Other => json.skip()?,
            _ if self.is_of_no_use() => json.skip()?,
            Field::Phase => self.phase = json.text()?.first().copied().unwrap_or(0),
            Field::Category => self.set_category(json.text()?),
            Field::Name => self.name.extend_from_slice(json.text()?),
            Field::Pid => self.pid = identifier(json.text()?),
            Field::Tid => self.tid = identifier(json.text()?),
            Field::Begin => self.begin_ns = nanoseconds(json.text()?),
            Field::Duration => self.duration_ns = nanoseconds(json.text()?).unwrap_or(0).max(0),
            Field::Args => self.args.read(json)?,
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8]) {
        self.category = Category::of(name);
        self.category_name.extend_from_slice(&name[..name.len().min(CATEGORY_BYTES_MAX)]);
    }
}

#[derive(Clone, Copy)]
enum Field {
    Phase,
    Category,
    Name,
    Pid,
    Tid,
    Begin,
    Duration,
    Args,
    Other,
}

impl Field {
    fn of(key: &[u8]) -> Field {
        match key {
            b"ph" => Field::Phase,
            b"cat" => Field::Category,
            b"name" => Field::Name,
            b"pid" => Field::Pid,
            b"tid" => Field::Tid,
            b"ts" => Field::Begin,
            b"dur" => Field::Duration,
            b"args" => Field::Args,
            _ => Field::Other,
        }
    }
}

impl Args {
    fn read(&mut self, json: &mut Json<'_>) -> Result<(), TraceError> {
        if json.kind()? != Kind::Object {
            return json.skip();
        }
        json.begin_object()?;
        let mut first = true;
        while let Some(key) = json.next_key(&mut first)? {
            let argument = Argument::of(key);
            self.take(argument, json)?;
        }
        Ok(())
    }

    fn take(&mut self, argument: Argument, json: &mut Json<'_>) -> Result<(), TraceError> {
        match argument {
            Argument::Correlation => self.correlation = unsigned(json.text()?),
            Argument::Device => self.device = narrow(json.text()?),
            Argument::Stream => self.stream = narrow(json.text()?),
            Argument::Grid => self.grid = triple(json)?,
            Argument::Block => self.block = triple(json)?,
            Argument::Bytes => self.bytes = unsigned(json.text()?),
            Argument::Direction => self.direction = direction(json.text()?),
            Argument::Address => self.address = unsigned(json.text()?),
            Argument::Kernel => self.kernel = Some(fnv1a(json.text()?)),
            Argument::AwaitedStream => self.awaited_stream = narrow(json.text()?),
            Argument::AwaitedRecord => self.awaited_record = unsigned(json.text()?),
            Argument::Label => self.label.extend_from_slice(json.text()?),
            Argument::Other => json.skip()?,
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Argument {
    Correlation,
    Device,
    Stream,
    Grid,
    Block,
    Bytes,
    Direction,
    Address,
    Kernel,
    AwaitedStream,
    AwaitedRecord,
    Label,
    Other,
}

impl Argument {
    fn of(key: &[u8]) -> Argument {
        match key {
            b"correlation" => Argument::Correlation,
            b"device" => Argument::Device,
            b"stream" => Argument::Stream,
            b"grid" => Argument::Grid,
            b"block" => Argument::Block,
            b"bytes" | b"size" => Argument::Bytes,
            b"kind" => Argument::Direction,
            b"ptr" => Argument::Address,
            b"kernel" => Argument::Kernel,
            b"wait_on_stream" => Argument::AwaitedStream,
            b"wait_on_cuda_event_record_corr_id" => Argument::AwaitedRecord,
            b"name" => Argument::Label,
            _ => Argument::Other,
        }
    }
}

/// Returns a process or thread id; `None` for text. Negative ids and those of 64 bits are hashed to 32 bits.
fn identifier(text: &[u8]) -> Option<u32> {
    let id = integer(text)?;
    let folded = match i32::try_from(id) {
        Ok(small) => small as u32,
        Err(_) => u32::try_from(id).unwrap_or_else(|_| probe_abi::fold::mix(id as u64) as u32 | 1 << 31),
    };
    Some(folded)
}

fn narrow(text: &[u8]) -> Option<u32> {
    unsigned(text).and_then(|v| u32::try_from(v).ok())
}

/// Reads an array of three numbers; anything else is skipped.
fn triple(json: &mut Json<'_>) -> Result<Option<[u64; 3]>, TraceError> {
    if json.kind()? != Kind::Array {
        json.skip()?;
        return Ok(None);
    }
    json.begin_array()?;
    let (mut all, mut count, mut first) = ([1u64; 3], 0, true);
    while json.next_element(&mut first)? {
        let value = unsigned(json.text()?);
        if let (Some(place), Some(value)) = (all.get_mut(count), value) {
            *place = value;
        }
        count += 1;
    }
    Ok((count == 3).then_some(all))
}

/// Returns the direction of `kind`: a number of the API, or a name of the profiler.
fn direction(text: &[u8]) -> Option<Direction> {
    let named = named_direction(text);
    named.or_else(|| unsigned(text).map(Direction::from_kind))
}

/// Returns the direction at the start of a text such as `HtoD` or, after "Memcpy ", `DtoH (Device -> Pageable)`.
pub(super) fn named_direction(text: &[u8]) -> Option<Direction> {
    match text.strip_prefix(b"Memcpy ").unwrap_or(text).get(..4)? {
        b"HtoD" => Some(Direction::HostToDevice),
        b"DtoH" => Some(Direction::DeviceToHost),
        b"DtoD" | b"PtoP" => Some(Direction::DeviceToDevice),
        b"HtoH" => Some(Direction::HostToHost),
        _ => None,
    }
}

/// Returns the FNV-1a hash of `text`.
pub(super) fn fnv1a(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Row {
        let mut row = Row::default();
        row.read(&mut Json::new(Box::new(text.as_bytes()), 1 << 20)).unwrap();
        row
    }

    #[test]
    fn fields_are_read_in_any_order() {
        let row = check(
            r#"{"args":{"kind":"1","grid":[2,3,4],"bytes":"9216","correlation":7,"x":{}},
                "dur":1.5,"ts":10.25,"tid":-549452224,"pid":9,"name":"hipMemcpyAsync","cat":"cuda_runtime","ph":"X"}"#,
        );
        assert_eq!(
            (row.phase, row.category, row.name.as_slice()),
            (b'X', Category::Call, &b"hipMemcpyAsync"[..])
        );
        assert_eq!((row.begin_ns, row.duration_ns), (Some(10_250), 1_500));
        assert_eq!((row.pid, row.tid), (Some(9), Some(3_745_515_072)));
        assert_eq!(row.args.direction, Some(Direction::HostToDevice));
        assert_eq!(
            (row.args.grid, row.args.bytes, row.args.correlation),
            (Some([2, 3, 4]), Some(9216), Some(7))
        );
    }

    #[test]
    fn thread_ids_of_any_size_are_distinct() {
        let ids = ["140737488355328", "140737488355329", "-1", "4294967294", "-140737488355328"];
        let folded: std::collections::BTreeSet<_> =
            ids.iter().map(|i| identifier(i.as_bytes()).unwrap()).collect();
        assert_eq!(folded.len(), ids.len());
        assert_eq!(identifier(b"Trace PyTorch Profiler"), None);
    }

    #[test]
    fn fields_of_irrelevant_entries_are_skipped() {
        let row = check(r#"{"ph":"X","cat":"python_function","name":"f","args":{"correlation":3}}"#);
        assert!(row.name.is_empty() && row.args.correlation.is_none());
    }

    #[test]
    fn categories_of_kineto_2021_are_known() {
        let names: [&[u8]; 4] = [b"Runtime", b"Kernel", b"Memcpy", b"Memset"];
        let expected = [Category::Call, Category::Kernel, Category::Copy, Category::Fill];
        assert_eq!(names.map(Category::of), expected);
    }

    #[test]
    fn directions_have_numbers_and_names() {
        assert_eq!(direction(b"2"), Some(Direction::DeviceToHost));
        assert_eq!(direction(b"DtoD"), Some(Direction::DeviceToDevice));
        assert_eq!(named_direction(b"Memcpy DtoH (Device -> Pageable)"), Some(Direction::DeviceToHost));
        assert_eq!(direction(b"Dispatch Task"), None);
    }
}
