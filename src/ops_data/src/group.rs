//! Datasets that sort elements into groups by the key that a function gives them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tfcore_base::{Result, require};
use tfcore_framework::Registry;
use tfcore_tensor::Tensor;

use crate::args::{Args, Build, Captured, dataset_kernel, handle_shape};
use crate::dataset::{Dataset, Element, Elements, Handle, Iter, IterContext, Rule};

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `GroupByWindowDataset(input_dataset: variant, ...) -> handle`, `reduce(key, window)` of each full window.
        ("GroupByWindowDataset", by_window as Build),
        ("ExperimentalGroupByWindowDataset", by_window),
        // `GroupByReducerDataset(input_dataset: variant, ...) -> handle`, `finalize(state)` of each key at the end.
        ("GroupByReducerDataset", by_reducer),
        ("ExperimentalGroupByReducerDataset", by_reducer),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
}

struct ByWindow {
    input: Handle,
    key: Captured,
    reduce: Captured,
    size: Captured,
}

fn by_window(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(ByWindow {
        key: args.function("key_func", "key_func_other_arguments")?,
        reduce: args.function("reduce_func", "reduce_func_other_arguments")?,
        size: args.function("window_size_func", "window_size_func_other_arguments")?,
        input: args.dataset("input_dataset")?,
    }))
}

const KEY: &str = "`key_func` must return a scalar int64.";

impl ByWindow {
    /// A pass over what the group becomes.
    fn reduced(&self, ctx: &IterContext, key: i64, group: Vec<Element>) -> Result<Iter> {
        let signature = (self.input.dtypes.clone(), self.input.shapes.clone());
        let rule = Arc::new(Elements(group));
        let group = Dataset::new("Window".to_string(), signature, Vec::new(), rule)?;
        let args = vec![Tensor::scalar(key), group.into_tensor()];
        self.reduce.dataset(ctx, args)?.iterate(ctx)
    }
}

impl Rule for ByWindow {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut groups: BTreeMap<i64, (i64, Vec<Element>)> = BTreeMap::new();
        // The groups that are left at the end of the input, by key.
        let mut rest: Option<VecDeque<(i64, Vec<Element>)>> = None;
        let mut current: Option<Iter> = None;
        Iter::new(move |ctx| {
            let nested = ctx.nested()?;
            loop {
                if let Some(pass) = &mut current {
                    match pass.next(&nested)? {
                        None => current = None,
                        element => return Ok(element),
                    }
                }
                if let Some(rest) = &mut rest {
                    let Some((key, group)) = rest.pop_front() else {
                        return Ok(None);
                    };
                    current = Some(self.reduced(&nested, key, group)?);
                    continue;
                }
                let Some(element) = input.next(ctx)? else {
                    let groups = std::mem::take(&mut groups);
                    rest = Some(groups.into_iter().map(|(key, (_, group))| (key, group)).collect());
                    continue;
                };
                let key: i64 = self.key.scalar(ctx, element.clone(), KEY)?;
                let (size, group) = match groups.entry(key) {
                    Entry::Occupied(group) => group.into_mut(),
                    Entry::Vacant(place) => {
                        let must = "`window_size_func` must return a scalar int64.";
                        let size: i64 = self.size.scalar(ctx, vec![Tensor::scalar(key)], must)?;
                        require!(
                            size > 0,
                            "Window size must be greater than zero, but got {size}."
                        );
                        place.insert((size, Vec::new()))
                    }
                };
                group.push(element);
                if group.len() as i64 == *size {
                    let group = std::mem::take(group);
                    groups.remove(&key);
                    current = Some(self.reduced(&nested, key, group)?);
                }
            }
        })
    }
}

struct ByReducer {
    input: Handle,
    key: Captured,
    init: Captured,
    reduce: Captured,
    finalize: Captured,
}

fn by_reducer(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(ByReducer {
        key: args.function("key_func", "key_func_other_arguments")?,
        init: args.function("init_func", "init_func_other_arguments")?,
        reduce: args.function("reduce_func", "reduce_func_other_arguments")?,
        finalize: args.function("finalize_func", "finalize_func_other_arguments")?,
        input: args.dataset("input_dataset")?,
    }))
}

impl Rule for ByReducer {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut states: BTreeMap<i64, Element> = BTreeMap::new();
        let mut ended = false;
        Iter::new(move |ctx| {
            while !ended {
                let Some(element) = input.next(ctx)? else {
                    ended = true;
                    break;
                };
                let key: i64 = self.key.scalar(ctx, element.clone(), KEY)?;
                let state = match states.get(&key) {
                    Some(state) => state.clone(),
                    None => self.init.call(ctx, vec![Tensor::scalar(key)])?,
                };
                let state = self.reduce.call(ctx, state.into_iter().chain(element).collect())?;
                states.insert(key, state);
            }
            match states.pop_first() {
                Some((_, state)) => self.finalize.call(ctx, state).map(Some),
                None => Ok(None),
            }
        })
    }
}
