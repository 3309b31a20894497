//! `Table`: the resource behind a table's handle.

use parking_lot::{RwLock, RwLockReadGuard};
use tfcore_base::{
    DType, Result, aborted, failed_precondition, invalid, require, unimplemented_error,
};
use tfcore_framework::named::NamedResource;
use tfcore_framework::{OpContext, Resource, for_each_part, summarize_values};
use tfcore_tensor::{ElemsMut, Shape, Tensor};

use crate::column::{Column, Defaults, column};
use crate::keys::Keys;

/// How many keys are looked up before their values are copied.
const BATCH: usize = 256;

/// Roughly what a lookup costs, in additions.
const COST: usize = 30;

/// The dtype and shape of each key or value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

/// How a table is filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// Once, as a whole.
    Once,
    /// Entry by entry.
    Mutable,
    /// Entry by entry, in buckets that clients see.
    Dense,
}

/// A map from keys to values that any number of threads read at a time.
pub(crate) struct Table {
    name: String,
    pub(crate) form: Form,
    pub(crate) key: Item,
    pub(crate) value: Item,
    state: RwLock<State>,
}

struct State {
    /// False until a table that is filled once has been.
    is_ready: bool,
    keys: Box<dyn Keys>,
    values: Box<dyn Column>,
}

impl Resource for Table {
    fn type_name(&self) -> &'static str {
        Table::TYPE
    }

    fn debug_string(&self) -> String {
        format!("A lookup table of size {}", self.len())
    }
}

impl NamedResource for Table {
    const TYPE: &'static str = "N10tensorflow6lookup15LookupInterfaceE";
}

impl Table {
    /// A table without entries. `keys` makes its keys, for values in a column.
    ///
    /// # Errors
    /// What `keys` reports.
    pub(crate) fn new(
        name: &str,
        form: Form,
        [key, value]: [Item; 2],
        keys: impl FnOnce(&mut dyn Column) -> Result<Box<dyn Keys>>,
    ) -> Result<Table> {
        let mut values = column(value.dtype, value.shape.count())?;
        let keys = keys(&mut *values)?;
        let state = RwLock::new(State { is_ready: form != Form::Once, keys, values });
        Ok(Table { name: name.to_string(), form, key, value, state })
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        let state = self.state.read();
        if state.is_ready { state.keys.len() } else { 0 }
    }

    /// The shape of the tensor of keys without what is the shape of each key.
    fn outer(&self, keys: &Shape) -> Result<Vec<i64>> {
        let outer = keys.dims().strip_suffix(self.key.shape.dims());
        outer.map(<[i64]>::to_vec).ok_or_else(|| {
            invalid!(
                "Input key shape {keys} must end with the table's key shape {}",
                self.key.shape
            )
        })
    }

    /// The shape of the values of a tensor of keys.
    fn values_shape(&self, keys: &Shape) -> Result<Shape> {
        let mut dims = self.outer(keys)?;
        dims.extend(self.value.shape.dims());
        Shape::new(&dims)
    }

    fn ready(&self) -> Result<RwLockReadGuard<'_, State>> {
        let state = self.state.read();
        match state.is_ready {
            true => Ok(state),
            false => Err(failed_precondition!("Table not initialized.")),
        }
    }

    /// The values of keys, those of missing ones being defaults, as output 0.
    ///
    /// # Errors
    /// `InvalidArgument` for shapes that do not fit, `FailedPrecondition` if the table has not been filled.
    pub(crate) fn find(&self, ctx: &OpContext<'_>, keys: &Tensor, default: &Tensor) -> Result<()> {
        let shape = self.values_shape(keys.shape())?;
        let single = *default.shape() == self.value.shape;
        require!(
            single || *default.shape() == shape,
            "Expected shape {} or {shape} for default value, got {}",
            self.value.shape,
            default.shape()
        );
        let state = self.ready()?;
        // Tables that are filled once know but one default.
        let of_each = !single && self.form != Form::Once;
        let defaults = Defaults { values: default.elems(), of_each };
        let (key_width, width) = (self.key.shape.count(), self.value.shape.count());
        let look_up = |start: usize, count: usize, mut out: ElemsMut<'_>| -> Result<()> {
            let mut rows = [0; BATCH];
            for first in (0..count).step_by(BATCH) {
                let rows = &mut rows[..BATCH.min(count - first)];
                let at = (start + first) * key_width;
                state.keys.find(keys.elems().slice(at..at + rows.len() * key_width), rows)?;
                let part = out.slice(first * width..(first + rows.len()) * width);
                state.values.gather(rows, defaults.from(start + first, width), part);
            }
            Ok(())
        };
        let count = keys.count().checked_div(key_width).unwrap_or(0);
        ctx.try_produce(0, shape, |out| {
            if width != 1 {
                return look_up(0, count, out);
            }
            let failure = parking_lot::Mutex::new(None);
            for_each_part(ctx.parallel(), out, COST, &|start, part| {
                let count = part.len();
                if let Err(error) = look_up(start, count, part) {
                    *failure.lock() = Some(error);
                }
            });
            failure.into_inner().map_or(Ok(()), Err)
        })
    }

    fn check_values(&self, keys: &Tensor, values: &Tensor) -> Result<()> {
        let shape = self.values_shape(keys.shape())?;
        require!(
            *values.shape() == shape,
            "Expected shape {shape} for value, got {}",
            values.shape()
        );
        Ok(())
    }

    /// Adds entries. The values of keys that are there are replaced; of equal keys, the last one counts.
    ///
    /// # Errors
    /// `InvalidArgument` for shapes that do not fit, `Unimplemented` for a table that is filled once.
    pub(crate) fn insert(&self, keys: &Tensor, values: &Tensor) -> Result<()> {
        if self.form == Form::Once {
            return Err(unimplemented_error!(
                "Insert not supported by InitializableLookupTable implementations"
            ));
        }
        self.check_values(keys, values)?;
        let state = &mut *self.state.write();
        let rows = state.keys.insert(keys.elems(), &mut *state.values)?;
        let rows: Vec<u32> = rows.into_iter().map(|(row, _)| row).collect();
        state.values.store(&rows, values.elems());
        Ok(())
    }

    /// Takes entries out.
    ///
    /// # Errors
    /// `InvalidArgument` for shapes that do not fit, `Unimplemented` for a table that is filled once.
    pub(crate) fn remove(&self, keys: &Tensor) -> Result<()> {
        if self.form == Form::Once {
            return Err(unimplemented_error!(
                "Remove not supported by InitializableLookupTable implementations"
            ));
        }
        self.outer(keys.shape())?;
        self.state.write().keys.remove(keys.elems())
    }

    /// Replaces all entries; a table that is filled once is filled.
    ///
    /// # Errors
    /// `InvalidArgument` for shapes that do not fit, and as [`Table::fill`].
    pub(crate) fn import(&self, keys: &Tensor, values: &Tensor) -> Result<()> {
        if self.form == Form::Once {
            return self.fill(keys, values);
        }
        self.check_values(keys, values)?;
        let state = &mut *self.state.write();
        if let Some(rows) = state.keys.replace(keys.elems(), &mut *state.values) {
            state.values.store(&rows?, values.elems());
            return Ok(());
        }
        state.keys.clear();
        let rows = state.keys.insert(keys.elems(), &mut *state.values)?;
        let rows: Vec<u32> = rows.into_iter().map(|(row, _)| row).collect();
        state.values.store(&rows, values.elems());
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` for a table that is filled entry by entry.
    pub(crate) fn check_fillable(&self) -> Result<()> {
        require!(self.form == Form::Once, "Table {} is not initializable", self.name);
        Ok(())
    }

    /// Fills a table that is filled once. If it has been, nothing happens as long as there are as many entries.
    ///
    /// # Errors
    /// `FailedPrecondition` if it has been filled with more or fewer entries or a key has two values, `InvalidArgument` for
    /// no entries.
    pub(crate) fn fill(&self, keys: &Tensor, values: &Tensor) -> Result<()> {
        require!(
            keys.count() > 0 && values.count() > 0,
            "keys and values cannot be empty tensors."
        );
        self.check_values(keys, values)?;
        let state = &mut *self.state.write();
        if state.is_ready {
            return match state.keys.len() == keys.count() {
                true => Ok(()),
                false => {
                    Err(failed_precondition!("Table was already initialized with different data."))
                }
            };
        }
        let rows = state.keys.insert(keys.elems(), &mut *state.values)?;
        for (index, (row, is_new)) in rows.into_iter().enumerate() {
            if is_new {
                let value = values.elems().slice(index..index + 1);
                state.values.store(&[row], value);
            } else if !state.values.is_same(row, values.elems(), index) {
                let error = self.conflict(state, keys, values, index, row);
                state.keys.clear();
                return Err(error);
            }
        }
        state.is_ready = true;
        Ok(())
    }

    /// The error of a key with two values.
    #[cold]
    fn conflict(
        &self,
        state: &State,
        keys: &Tensor,
        values: &Tensor,
        index: usize,
        row: u32,
    ) -> tfcore_base::Error {
        let text = |tensor: &Tensor, index: usize| {
            let mut one = Tensor::zeros(tensor.dtype(), Shape::scalar())?;
            one.elems_mut()?.copy_from(tensor.elems().slice(index..index + 1));
            Ok(one)
        };
        let shown = |tensor: Result<Tensor>| {
            tensor.map_or_else(|error| error.message().to_string(), |one| summarize_values(&one, 1))
        };
        let known = Tensor::zeros(values.dtype(), Shape::scalar()).and_then(|mut one| {
            let defaults = Defaults { values: values.elems(), of_each: false };
            state.values.gather(&[row], defaults, one.elems_mut()?);
            Ok(one)
        });
        failed_precondition!(
            "HashTable has different value for same key. Key {} has {} and trying to add value {}",
            shown(text(keys, index)),
            shown(known),
            shown(text(values, index))
        )
    }

    /// All entries, as outputs 0 and 1.
    ///
    /// # Errors
    /// `Aborted` if the table has not been filled.
    pub(crate) fn export(&self, ctx: &OpContext<'_>) -> Result<()> {
        let state = self.state.read();
        if !state.is_ready {
            return Err(aborted!("HashTable is not initialized."));
        }
        let rows = state.keys.exported();
        let is_dense = self.form == Form::Dense;
        let shape = |item: &Item| {
            let mut dims = vec![rows.len() as i64];
            match item.shape.dims() {
                // A dense table has a matrix for each.
                [] if is_dense => dims.push(1),
                item => dims.extend(item),
            }
            Shape::new(&dims)
        };
        for (output, item) in [&self.key, &self.value].into_iter().enumerate() {
            require!(
                ctx.output_dtype(output) == item.dtype,
                "The table has {} and not {}",
                item.dtype,
                ctx.output_dtype(output)
            );
        }
        ctx.produce(0, shape(&self.key)?, |out| state.keys.export(&rows, out))?;
        // No row is missing.
        let none = Tensor::zeros(self.value.dtype, Shape::vector(0))?;
        let defaults = Defaults { values: none.elems(), of_each: false };
        ctx.produce(1, shape(&self.value)?, |out| state.values.gather(&rows, defaults, out))
    }
}
