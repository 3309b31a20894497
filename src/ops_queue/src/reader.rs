//! Readers: records of the files (or other work) whose names they take from a queue.

mod kinds;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tfcore_base::{DType, Result, escape_bytes, invalid, require, unimplemented_error};
use tfcore_files::Files;
use tfcore_framework::{
    BlockingContext, InferenceContext, KernelInit, OpContext, Outputs, Registry, Resource, Value,
    blocking_kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

use crate::named::{NamedResource, find, handle_kernel};
use crate::queue::{Attempt, Dequeue, Form, Queue};
use crate::shapes;

use kinds::{Kind, Work};

pub(crate) fn register(r: &mut Registry) {
    // `TextLineReader(; skip_header_lines, container, shared_name) -> reader_handle: Ref(string)`, a reader of that name; `V2`
    // hands out a resource. Likewise the others.
    for (v1, v2, kind) in [
        ("TextLineReader", "TextLineReaderV2", Kind::text_lines as MakeKind),
        ("FixedLengthRecordReader", "FixedLengthRecordReaderV2", Kind::fixed_length),
        ("TFRecordReader", "TFRecordReaderV2", Kind::tf_records),
        ("WholeFileReader", "WholeFileReaderV2", |_| Ok(Kind::WholeFile)),
        ("IdentityReader", "IdentityReaderV2", |_| Ok(Kind::Identity)),
    ] {
        let make = move |init: &KernelInit<'_>| {
            let kind = kind(init)?;
            handle_kernel(init, move |name| Ok(Reader::new(name, kind.clone())), |_| Ok(()))
        };
        r.op(v1).shape(shapes::ref_handle).cpu(make);
        r.op(v2).shape(shapes::resource_handle).cpu(make);
    }

    for v2 in [false, true] {
        let name = |v1: &'static str, name_v2: &'static str| if v2 { name_v2 } else { v1 };
        // `ReaderReadV2(reader_handle: resource, queue_handle: resource) -> (key: string, value: string)`: the next record, as
        // soon as the queue has work if there is none.
        r.op(name("ReaderRead", "ReaderReadV2"))
            .shape(move |ctx| handles_to_scalars(ctx, v2, 2))
            .cpu(|_| blocking_kernel(|ctx| start(ctx, |_| Ok(None))));
        // `ReaderReadUpToV2(reader_handle: resource, queue_handle: resource, num_records: int64) -> (keys: string, values:
        // string)`: so many records, or as many as the work has that is under way.
        r.op(name("ReaderReadUpTo", "ReaderReadUpToV2"))
            .shape(move |ctx| {
                check_handles(ctx, v2, 2)?;
                shape_ops::with_rank(ctx.input(2), 0)?;
                for output in 0..2 {
                    ctx.set_output(output, PartialShape::vector(Dim::fresh()));
                }
                Ok(())
            })
            .cpu(|_| {
                blocking_kernel(|ctx| {
                    start(ctx, |op| Ok(Some(op.input_scalar::<i64>(2, "num_records")?)))
                })
            });
        // `ReaderNumRecordsProducedV2(reader_handle: resource) -> records_produced: int64`, and
        // `ReaderNumWorkUnitsCompletedV2`.
        for (op, count) in [
            (
                name("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2"),
                (|state| state.records) as fn(&State) -> i64,
            ),
            (name("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2"), |state| {
                state.finished
            }),
        ] {
            r.op(op).shape(move |ctx| handles_to_scalars(ctx, v2, 1)).cpu(move |_| {
                tfcore_framework::kernel(move |ctx| {
                    let count = count(&find::<Reader>(ctx, 0)?.state.lock());
                    ctx.set_output(0, Tensor::scalar(count));
                    Ok(())
                })
            });
        }
        // `ReaderResetV2(reader_handle: resource)`.
        r.op(name("ReaderReset", "ReaderResetV2"))
            .shape(move |ctx| check_handles(ctx, v2, 1))
            .compute(|ctx| {
                *find::<Reader>(ctx, 0)?.state.lock() = State::default();
                Ok(())
            });
        // `ReaderSerializeStateV2(reader_handle: resource) -> state: string`.
        r.op(name("ReaderSerializeState", "ReaderSerializeStateV2"))
            .shape(move |ctx| handles_to_scalars(ctx, v2, 1))
            .compute(|ctx| {
                let state = find::<Reader>(ctx, 0)?.serialize()?;
                ctx.set_output(0, Tensor::scalar(TString::from(&state[..])));
                Ok(())
            });
        // `ReaderRestoreStateV2(reader_handle: resource, state: string)`.
        r.op(name("ReaderRestoreState", "ReaderRestoreStateV2"))
            .shape(move |ctx| {
                check_handles(ctx, v2, 1)?;
                shape_ops::with_rank(ctx.input(1), 0).map(|_| ())
            })
            .compute(|ctx| {
                let reader = find::<Reader>(ctx, 0)?;
                let state = ctx.input(1)?;
                require!(
                    state.rank() == 0,
                    "Reader state must be scalar, but had shape: {}",
                    state.shape()
                );
                reader.restore(state.scalar_value::<TString>()?.as_bytes())
            });
    }
}

/// Makes a kind of reader by the attrs of its node.
type MakeKind = fn(&KernelInit<'_>) -> Result<Kind>;

/// Checks that the first inputs are handles: scalars or, of old, vectors of two.
fn check_handles(ctx: &mut InferenceContext<'_>, v2: bool, handles: usize) -> Result<()> {
    for index in 0..handles {
        let handle = shape_ops::with_rank(ctx.input(index), if v2 { 0 } else { 1 })?;
        if !v2 {
            shape_ops::with_value(handle.dim(0), 2)?;
        }
    }
    shape_fns::no_outputs(ctx)
}

fn handles_to_scalars(ctx: &mut InferenceContext<'_>, v2: bool, handles: usize) -> Result<()> {
    check_handles(ctx, v2, handles)?;
    for output in 0..ctx.num_outputs() {
        ctx.set_output(output, PartialShape::scalar());
    }
    Ok(())
}

/// A reader.
struct Reader {
    name: String,
    kind: Kind,
    state: Mutex<State>,
}

impl Resource for Reader {
    fn type_name(&self) -> &'static str {
        Reader::TYPE
    }
}

impl NamedResource for Reader {
    const TYPE: &'static str = "N10tensorflow15ReaderInterfaceE";
}

/// How far a reader is.
#[derive(Default)]
struct State {
    started: i64,
    finished: i64,
    records: i64,
    /// The name of the work that was begun last.
    current: Vec<u8>,
    /// The work that is under way.
    work: Option<Work>,
    /// Work that was taken from the queue while other work was under way.
    waiting: VecDeque<Vec<u8>>,
}

type Record = (Vec<u8>, Vec<u8>);

impl Reader {
    fn new(name: &str, kind: Kind) -> Reader {
        Reader { name: name.to_string(), kind, state: Mutex::new(State::default()) }
    }

    /// Reads up to `wanted` records of one piece of work. Returns none if work is missing.
    fn read(&self, files: &Files, wanted: usize) -> Result<Vec<Record>> {
        let mut state = self.state.lock();
        loop {
            if state.work.is_none() {
                let Some(name) = state.waiting.pop_front() else {
                    return Ok(Vec::new());
                };
                state.started += 1;
                state.current = name.clone();
                state.work = Some(self.kind.begin(files, name)?);
            }
            let mut records = Vec::new();
            let mut is_at_end = false;
            while let Some(work) = &mut state.work
                && records.len() < wanted
                && !is_at_end
            {
                match self.kind.next(work)? {
                    Some(record) => {
                        records.push(record);
                        // Kinds with one record for each piece of work know that they are done.
                        is_at_end = self.kind.is_single();
                    }
                    None => is_at_end = true,
                }
            }
            state.records += records.len() as i64;
            if is_at_end {
                state.work = None;
                state.finished = state.started;
            }
            if !records.is_empty() {
                return Ok(records);
            }
        }
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        if !self.kind.is_single() {
            return Err(unimplemented_error!("Reader SerializeState"));
        }
        let state = self.state.lock();
        let mut bytes = Vec::new();
        for (field, value) in (1u8..).zip([state.started, state.finished, state.records]) {
            if value != 0 {
                bytes.push(field << 3);
                put_varint(&mut bytes, value as u64);
            }
        }
        if !state.current.is_empty() {
            bytes.push(4 << 3 | 2);
            put_varint(&mut bytes, state.current.len() as u64);
            bytes.extend(&state.current);
        }
        Ok(bytes)
    }

    fn restore(&self, bytes: &[u8]) -> Result<()> {
        if !self.kind.is_single() {
            return Err(unimplemented_error!("Reader RestoreState"));
        }
        let Some(restored) = parse_state(bytes) else {
            return Err(invalid!(
                "Could not parse state for {} '{}': {}",
                self.kind.name(),
                self.name,
                escape_bytes(bytes)
            ));
        };
        let counts = [restored.started, restored.finished, restored.records];
        require!(
            counts.iter().all(|&count| count >= 0),
            "Unexpected negative value when restoring in {} '{}'",
            self.kind.name(),
            self.name
        );
        require!(
            restored.started == restored.finished,
            "Inconsistent work started vs. finished when restoring in {} '{}': {} vs. {}",
            self.kind.name(),
            self.name,
            restored.started,
            restored.finished
        );
        *self.state.lock() = restored;
        Ok(())
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The state that a message `ReaderBaseState` tells.
fn parse_state(mut bytes: &[u8]) -> Option<State> {
    let mut state = State::default();
    while !bytes.is_empty() {
        match take_varint(&mut bytes)? {
            0x08 => state.started = take_varint(&mut bytes)? as i64,
            0x10 => state.finished = take_varint(&mut bytes)? as i64,
            0x18 => state.records = take_varint(&mut bytes)? as i64,
            0x22 => {
                let len = usize::try_from(take_varint(&mut bytes)?).ok()?;
                let (current, rest) = bytes.split_at_checked(len)?;
                state.current = current.to_vec();
                bytes = rest;
            }
            _ => return None,
        }
    }
    Some(state)
}

/// One run of an op that reads.
struct Job {
    ctx: BlockingContext,
    reader: Arc<Reader>,
    queue: Arc<Queue>,
    /// `None` for an op that reads one record.
    wanted: Option<i64>,
}

fn start(mut ctx: BlockingContext, wanted: fn(&OpContext<'_>) -> Result<Option<i64>>) {
    let found = (|| {
        let op = ctx.op();
        let (reader, queue) = (find::<Reader>(&op, 0)?, find::<Queue>(&op, 1)?);
        require!(
            queue.spec.dtypes == [DType::STRING],
            "A reader's queue must hold one string for each element"
        );
        Ok((reader, queue, wanted(&op)?))
    })();
    match found {
        Ok((reader, queue, wanted)) => advance(Job { ctx, reader, queue, wanted }),
        Err(error) => ctx.finish(Err(error)),
    }
}

/// What an op finds when it comes back from the queue.
enum Meeting {
    /// Neither the op nor the work is here.
    Nobody,
    Work(Result<Outputs>),
    Op(Box<Job>),
}

/// Goes on until there is a record, or leaves the op to whoever brings work.
fn advance(job: Job) {
    loop {
        let wanted = job.wanted.map_or(1, |wanted| wanted.max(0) as usize);
        let files = job.ctx.step().files.clone();
        let records = match wanted {
            0 => Ok(Vec::new()),
            _ => job.reader.read(&files, wanted),
        };
        match records {
            Ok(records) if records.is_empty() && wanted > 0 => {}
            records => {
                let single = job.wanted.is_none();
                return job.ctx.finish_with(|op| deliver(op, records?, single));
            }
        }
        // The work may be there at once: then the loop goes on, so that empty files do not pile up calls.
        let meeting = Arc::new(Mutex::new(Meeting::Nobody));
        let later = meeting.clone();
        let done = Box::new(move |result: Result<Outputs>| {
            let before = std::mem::replace(&mut *later.lock(), Meeting::Nobody);
            match before {
                Meeting::Op(job) => resume(*job, result),
                _ => *later.lock() = Meeting::Work(result),
            }
        });
        let step = job.ctx.step().clone();
        let taker = BlockingContext::new(SmallVec::new(), &[DType::STRING], step, done);
        let attempt = Attempt::Dequeue(Dequeue::new(1, Form::Single));
        job.queue.monitor.clone().submit(taker, attempt);
        let mut here = meeting.lock();
        match std::mem::replace(&mut *here, Meeting::Nobody) {
            Meeting::Work(result) => {
                drop(here);
                if let Err(error) = take_work(&job.reader, result) {
                    return job.ctx.finish(Err(error));
                }
            }
            _ => {
                *here = Meeting::Op(Box::new(job));
                return;
            }
        }
    }
}

fn resume(job: Job, result: Result<Outputs>) {
    match take_work(&job.reader, result) {
        Ok(()) => advance(job),
        Err(error) => job.ctx.finish(Err(error)),
    }
}

/// Hands what came from the queue to the reader.
fn take_work(reader: &Reader, result: Result<Outputs>) -> Result<()> {
    let outputs = result?;
    let Some(Value::Tensor(tensor)) = outputs.first() else {
        return Err(invalid!("The queue has brought nothing"));
    };
    let name = tensor.scalar_value::<TString>()?;
    reader.state.lock().waiting.push_back(name.as_bytes().to_vec());
    Ok(())
}

fn deliver(ctx: &mut OpContext<'_>, records: Vec<Record>, single: bool) -> Result<()> {
    let (keys, values): (Vec<TString>, Vec<TString>) = records
        .into_iter()
        .map(|(key, value)| (TString::from(&key[..]), TString::from(&value[..])))
        .unzip();
    let shape = if single { Shape::scalar() } else { Shape::vector(keys.len()) };
    ctx.set_output(0, Tensor::from_slice(shape.clone(), &keys)?);
    ctx.set_output(1, Tensor::from_slice(shape, &values)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back() {
        let reader = Reader::new("r", Kind::Identity);
        reader.state.lock().waiting.extend([b"a".to_vec(), b"bc".to_vec()]);
        let files = Files::default();
        assert_eq!(reader.read(&files, 5).unwrap(), [(b"a".to_vec(), b"a".to_vec())]);
        assert_eq!(reader.read(&files, 5).unwrap(), [(b"bc".to_vec(), b"bc".to_vec())]);
        assert!(reader.read(&files, 5).unwrap().is_empty());
        let bytes = reader.serialize().unwrap();
        assert_eq!(bytes, b"\x08\x02\x10\x02\x18\x02\"\x02bc");
        let other = Reader::new("o", Kind::Identity);
        other.restore(&bytes).unwrap();
        assert_eq!(other.serialize().unwrap(), bytes);
        for damaged in [&b"\xff\xff"[..], b"\x22\x05ab", b"\x08"] {
            assert!(other.restore(damaged).is_err());
        }
        assert!(other.restore(b"\x08\x02").is_err());
    }
}
