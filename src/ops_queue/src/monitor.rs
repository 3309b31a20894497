//! `Monitor`: state that ops change one at a time, and the lines in which they wait until they can.
//!
//! Whoever changes the state lets those in line have their turn, and brings the ops that got what they
//! wanted to their end, on its own thread. No op ends while the state is locked: what follows an op may need
//! the same state.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tfcore_base::{Error, Result};
use tfcore_framework::{BlockingContext, CancellationToken, Kernel, OpContext, blocking_kernel};

/// State on which ops wait.
pub(crate) trait State: Send + 'static {
    /// What an op wants to do.
    type Attempt: Send + 'static;
    /// What an op that could do it takes with it.
    type Outcome: Send + 'static;

    /// Whether one who has to wait holds up those behind.
    const IN_TURN: bool = true;

    /// In which of the two lines an op waits.
    fn line(attempt: &Self::Attempt) -> Line;

    /// An op's turn.
    fn attempt(&mut self, attempt: &mut Self::Attempt) -> Turn<Self::Outcome>;

    /// What an op says whose step is cancelled.
    fn cancelled(attempt: &Self::Attempt) -> Error;

    /// Turns what an op takes with it into its outputs.
    ///
    /// # Errors
    /// Whatever goes wrong with that.
    fn deliver(outcome: Self::Outcome, op: &mut OpContext<'_>) -> Result<()>;
}

/// The lines: those who bring something, and those who take it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Bring,
    Take,
}

/// What came of a turn.
pub(crate) enum Turn<T> {
    /// The op is at its end.
    Done(Result<T>),
    /// The state has changed, but the op wants more.
    Progress,
    /// The state is as it was.
    Wait,
}

/// State, and the ops that wait for it.
pub(crate) struct Monitor<S: State> {
    inner: Mutex<Inner<S>>,
}

struct Inner<S: State> {
    state: S,
    /// By number, so that the first is the one that came first.
    lines: [BTreeMap<u64, Waiting<S>>; 2],
    next: u64,
}

struct Waiting<S: State> {
    attempt: S::Attempt,
    ctx: BlockingContext,
    token: CancellationToken,
}

/// Ops at their end, until the state is unlocked.
type Ended<S> = SmallVec<[End<S>; 1]>;

struct End<S: State> {
    ctx: BlockingContext,
    /// To be taken back.
    token: Option<CancellationToken>,
    result: Result<S::Outcome>,
}

impl<S: State> Monitor<S> {
    pub(crate) fn new(state: S) -> Arc<Monitor<S>> {
        let lines = [BTreeMap::new(), BTreeMap::new()];
        Arc::new(Monitor { inner: Mutex::new(Inner { state, lines, next: 0 }) })
    }

    /// Looks at the state.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&S) -> R) -> R {
        look(&self.inner.lock().state)
    }

    /// Changes the state, without waiting for anything.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let mut ended = Ended::new();
        let result = {
            let mut inner = self.inner.lock();
            let result = change(&mut inner.state);
            inner.give_turns(&mut ended);
            result
        };
        conclude(ended);
        result
    }

    /// Changes the state and sends away all who wait in `line`, each with `error`.
    pub(crate) fn change_and_send_away(
        &self,
        line: Line,
        error: &Error,
        change: impl FnOnce(&mut S),
    ) {
        let mut ended = Ended::new();
        {
            let mut inner = self.inner.lock();
            change(&mut inner.state);
            for waiting in std::mem::take(&mut inner.lines[line as usize]).into_values() {
                let (ctx, token) = (waiting.ctx, Some(waiting.token));
                ended.push(End { ctx, token, result: Err(error.clone()) });
            }
            inner.give_turns(&mut ended);
        }
        conclude(ended);
    }

    /// Lets an op attempt something, which it waits for if need be; the op ends here or later.
    pub(crate) fn submit(self: &Arc<Self>, ctx: BlockingContext, mut attempt: S::Attempt) {
        if ctx.step().cancellation.is_cancelled() {
            return ctx.finish(Err(S::cancelled(&attempt)));
        }
        let mut ended = Ended::new();
        {
            let mut inner = self.inner.lock();
            let line = S::line(&attempt);
            let turn = match S::IN_TURN && !inner.lines[line as usize].is_empty() {
                true => Turn::Wait,
                false => inner.state.attempt(&mut attempt),
            };
            match turn {
                Turn::Done(result) => {
                    ended.push(End { ctx, token: None, result });
                    inner.give_turns(&mut ended);
                }
                Turn::Progress => {
                    self.put_in_line(&mut inner, line, attempt, ctx, &mut ended);
                    inner.give_turns(&mut ended);
                }
                Turn::Wait => self.put_in_line(&mut inner, line, attempt, ctx, &mut ended),
            }
        }
        conclude(ended);
    }

    fn put_in_line(
        self: &Arc<Self>,
        inner: &mut Inner<S>,
        line: Line,
        attempt: S::Attempt,
        ctx: BlockingContext,
        ended: &mut Ended<S>,
    ) {
        let number = inner.next;
        inner.next += 1;
        let this = Arc::downgrade(self);
        let token = ctx.step().cancellation.register(move || {
            if let Some(this) = this.upgrade() {
                this.give_up(line, number);
            }
        });
        match token {
            Some(token) => {
                inner.lines[line as usize].insert(number, Waiting { attempt, ctx, token });
            }
            None => {
                let result = Err(S::cancelled(&attempt));
                ended.push(End { ctx, token: None, result });
            }
        }
    }

    /// Takes an op whose step was cancelled out of its line.
    fn give_up(&self, line: Line, number: u64) {
        let mut ended = Ended::new();
        {
            let mut inner = self.inner.lock();
            if let Some(waiting) = inner.lines[line as usize].remove(&number) {
                let result = Err(S::cancelled(&waiting.attempt));
                ended.push(End { ctx: waiting.ctx, token: None, result });
                inner.give_turns(&mut ended);
            }
        }
        conclude(ended);
    }
}

impl<S: State> Inner<S> {
    /// Lets those in line have their turn, as long as anything changes.
    fn give_turns(&mut self, ended: &mut Ended<S>) {
        loop {
            let brought = self.serve(Line::Bring, ended);
            let taken = self.serve(Line::Take, ended);
            if !brought && !taken {
                return;
            }
        }
    }

    /// Serves a line from its front, until one has to wait who holds up the others. Returns whether the state
    /// has changed.
    fn serve(&mut self, line: Line, ended: &mut Ended<S>) -> bool {
        let line = &mut self.lines[line as usize];
        let mut changed = false;
        let mut from = 0;
        while let Some((&number, waiting)) = line.range_mut(from..).next() {
            match self.state.attempt(&mut waiting.attempt) {
                Turn::Done(result) => {
                    if let Some(Waiting { ctx, token, .. }) = line.remove(&number) {
                        ended.push(End { ctx, token: Some(token), result });
                    }
                    changed = true;
                }
                Turn::Progress => return true,
                Turn::Wait if S::IN_TURN => return changed,
                Turn::Wait => {}
            }
            from = number + 1;
        }
        changed
    }
}

fn conclude<S: State>(ended: Ended<S>) {
    for End { ctx, token, result } in ended {
        if let Some(token) = token {
            ctx.step().cancellation.deregister(token);
        }
        match result {
            Ok(outcome) => ctx.finish_with(|op| S::deliver(outcome, op)),
            Err(error) => ctx.finish(Err(error)),
        }
    }
}

/// A kernel that attempts something on a monitor. `begin` looks at the inputs; it returns nothing where the
/// op is at its end already, with all outputs set.
pub(crate) fn waiting_kernel<S: State>(
    begin: impl Fn(&mut OpContext<'_>) -> Result<Option<(Arc<Monitor<S>>, S::Attempt)>>
    + Send
    + Sync
    + 'static,
) -> Result<Box<dyn Kernel>> {
    blocking_kernel(move |mut ctx: BlockingContext| {
        let begun = begin(&mut ctx.op());
        match begun {
            Ok(Some((monitor, attempt))) => monitor.submit(ctx, attempt),
            Ok(None) => ctx.finish(Ok(())),
            Err(error) => ctx.finish(Err(error)),
        }
    })
}
