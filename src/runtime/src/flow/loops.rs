//! Loops over functions of which some node may wait.

use super::*;

/// A While whose functions may wait. Each call goes on through the queue, so that the stack does not grow with the iterations.
pub(super) struct While {
    pub(super) flow: Arc<Flow>,
    pub(super) cond: Arc<Function>,
    pub(super) body: Arc<Function>,
}

impl While {
    pub(super) fn start(self, vars: Inputs, done: Done) {
        let (flow, cond) = (self.flow.clone(), self.cond.clone());
        flow.start_call(
            &cond,
            vars.clone(),
            Box::new(move |results| match results.and_then(|results| holds(&results)) {
                Err(error) => done(Err(error)),
                Ok(false) => done(Ok(vars.into_iter().collect())),
                Ok(true) => self.iterate(vars, done),
            }),
        );
    }

    fn iterate(self, vars: Inputs, done: Done) {
        let (flow, body) = (self.flow.clone(), self.body.clone());
        flow.start_call(
            &body,
            vars,
            Box::new(move |results| match results {
                Err(error) => done(Err(error)),
                Ok(vars) => {
                    let queue = self.flow.queue.clone();
                    queue.push(Box::new(move || self.start(vars.into_iter().collect(), done)));
                }
            }),
        );
    }
}

/// A For whose body may wait.
pub(super) struct For {
    pub(super) flow: Arc<Flow>,
    pub(super) body: Arc<Function>,
    pub(super) range: Range,
}

impl For {
    pub(super) fn start(mut self, mut vars: Inputs, done: Done) {
        let Some(counter) = self.range.next() else {
            return done(Ok(vars.into_iter().collect()));
        };
        vars.insert(0, counter);
        let (flow, body) = (self.flow.clone(), self.body.clone());
        flow.start_call(
            &body,
            vars,
            Box::new(move |results| match results {
                Err(error) => done(Err(error)),
                Ok(vars) => {
                    let queue = self.flow.queue.clone();
                    queue.push(Box::new(move || self.start(vars.into_iter().collect(), done)));
                }
            }),
        );
    }
}
