//! The ops that make tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::named::{ResourceName, anonymous_handle, handle_kernel_of};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns,
};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::column::Column;
use crate::dense::Dense;
use crate::keys::{Key, Keys, WithKey, with_key};
use crate::map::Map;
use crate::shapes;
use crate::table::{Form, Item, Table};

pub(crate) fn register(r: &mut Registry) {
    // `HashTable() -> table_handle`, a table that is filled once.
    r.op("HashTable").shape(shapes::ref_handle).cpu(|init| named(init, Kind::Once));
    r.op("HashTableV2").shape(shape_fns::scalar).cpu(|init| named(init, Kind::Once));
    r.op("AnonymousHashTable").shape(shape_fns::scalar).cpu(|init| anonymous(init, Kind::Once));
    // `MutableHashTable() -> table_handle`.
    r.op("MutableHashTable").shape(shapes::ref_handle).cpu(|init| named(init, Kind::Scalars));
    r.op("MutableHashTableV2").shape(scalars).cpu(|init| named(init, Kind::Scalars));
    r.op("AnonymousMutableHashTable").shape(scalars).cpu(|init| anonymous(init, Kind::Scalars));
    // `MutableHashTableOfTensors() -> table_handle`, whose values are of attr `value_shape`.
    r.op("MutableHashTableOfTensors")
        .shape(shapes::ref_handle)
        .cpu(|init| named(init, Kind::Tensors));
    r.op("MutableHashTableOfTensorsV2").shape(tensors).cpu(|init| named(init, Kind::Tensors));
    r.op("AnonymousMutableHashTableOfTensors")
        .shape(tensors)
        .cpu(|init| anonymous(init, Kind::Tensors));
    // `MutableDenseHashTable(empty_key: key_dtype) -> table_handle`: as it lacks the key that stands for removed ones, no table can be
    // made of it.
    r.op("MutableDenseHashTable").shape(shapes::ref_handle).cpu(|init| {
        let dense = Buckets::new(init)?;
        kernel(move |_| {
            dense.check()?;
            Err(invalid!("Unknown input name: deleted_key"))
        })
    });
    // `MutableDenseHashTableV2(empty_key: key_dtype, deleted_key: key_dtype) -> table_handle`.
    r.op("MutableDenseHashTableV2").shape(dense).cpu(|init| {
        let buckets = Buckets::new(init)?;
        named(init, Kind::Dense(buckets))
    });
    r.op("AnonymousMutableDenseHashTable").shape(dense).cpu(|init| {
        let buckets = Buckets::new(init)?;
        anonymous(init, Kind::Dense(buckets))
    });
}

fn scalars(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shapes::described(ctx, PartialShape::scalar(), PartialShape::scalar())
}

fn tensors(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let value = ctx.attrs.shape("value_shape")?.clone();
    shapes::described(ctx, PartialShape::scalar(), value)
}

fn dense(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let value = ctx.attrs.shape("value_shape")?.clone();
    shapes::described(ctx, ctx.input(0).clone(), value)
}

/// What kind of table a node makes.
enum Kind {
    Once,
    Scalars,
    Tensors,
    Dense(Buckets),
}

/// The attrs of a node that makes a table.
struct Maker {
    kind: Kind,
    key: DType,
    value: DType,
    value_shape: PartialShape,
}

impl Maker {
    fn new(init: &KernelInit<'_>, kind: Kind) -> Result<Maker> {
        let value_shape = match kind {
            Kind::Once | Kind::Scalars => PartialShape::scalar(),
            Kind::Tensors | Kind::Dense(_) => init.attrs.shape("value_shape")?.clone(),
        };
        let (key, value) = (init.attrs.dtype("key_dtype")?, init.attrs.dtype("value_dtype")?);
        Ok(Maker { kind, key, value, value_shape })
    }

    fn make(&self, ctx: &OpContext<'_>, name: &str) -> Result<Table> {
        let value = Item { dtype: self.value, shape: self.shape()? };
        let key = Item { dtype: self.key, shape: Shape::scalar() };
        let items = [key, value];
        match &self.kind {
            Kind::Once => Table::new(name, Form::Once, items, |_| self.map()),
            Kind::Scalars | Kind::Tensors => Table::new(name, Form::Mutable, items, |_| self.map()),
            Kind::Dense(buckets) => {
                buckets.check()?;
                let (empty, deleted) = (ctx.input(0)?, ctx.input(1)?);
                check_keys(empty, deleted)?;
                let [key, value] = items;
                let items = [Item { shape: empty.shape().clone(), ..key }, value];
                let empty_keys = MakeDense { empty, deleted, buckets, values: None };
                Table::new(name, Form::Dense, items, |values| {
                    with_key(self.key, MakeDense { values: Some(values), ..empty_keys })?
                })
            }
        }
    }

    fn map(&self) -> Result<Box<dyn Keys>> {
        with_key(self.key, MakeMap)
    }

    /// The shape of a value.
    fn shape(&self) -> Result<Shape> {
        let shown = &self.value_shape;
        let shape = shown
            .to_shape()
            .ok_or_else(|| invalid!("Default value must be a vector, got shape {shown}"))?;
        match self.kind {
            Kind::Tensors => {
                require!(shape.rank() == 1, "Default value must be a vector, got shape {shape}");
            }
            Kind::Dense(_) => require!(
                shape.rank() <= 1,
                "Empty value must be a scalar or a vector, got shape {shape}"
            ),
            Kind::Once | Kind::Scalars => {}
        }
        Ok(shape)
    }

    /// # Errors
    /// `InvalidArgument` if there is a table of that name for other types.
    fn check(&self, table: &Table, name: &str) -> Result<()> {
        require!(
            (table.key.dtype, table.value.dtype) == (self.key, self.value),
            "Conflicting key/value dtypes {}->{} with {}-{} for table {name}",
            self.key,
            self.value,
            table.key.dtype,
            table.value.dtype
        );
        Ok(())
    }
}

struct MakeMap;

impl WithKey for MakeMap {
    type Out = Box<dyn Keys>;

    fn call<K: Key>(self) -> Box<dyn Keys> {
        Box::new(Map::<K>::new())
    }
}

struct MakeDense<'a> {
    empty: &'a Tensor,
    deleted: &'a Tensor,
    buckets: &'a Buckets,
    values: Option<&'a mut dyn Column>,
}

impl WithKey for MakeDense<'_> {
    type Out = Result<Box<dyn Keys>>;

    fn call<K: Key>(self) -> Result<Box<dyn Keys>> {
        let (empty, deleted) = (self.empty.as_slice::<K>()?, self.deleted.as_slice::<K>()?);
        require!(empty != deleted, "Empty and deleted keys cannot be equal");
        let Some(values) = self.values else {
            return Err(invalid!("A dense table has no values"));
        };
        let count = self.buckets.count as usize;
        Ok(Box::new(Dense::new(empty, deleted, count, self.buckets.max_load, values)?))
    }
}

fn check_keys(empty: &Tensor, deleted: &Tensor) -> Result<()> {
    require!(
        empty.rank() <= 1,
        "Empty key must be a scalar or a vector, got shape {}",
        empty.shape()
    );
    require!(
        empty.shape() == deleted.shape(),
        "Empty and deleted keys must have same shape, got shapes: {} and {}",
        empty.shape(),
        deleted.shape()
    );
    require!(empty.count() > 0, "Empty key must have elements, got shape {}", empty.shape());
    Ok(())
}

/// The attrs of a table in buckets.
struct Buckets {
    count: i64,
    max_load: f32,
}

impl Buckets {
    fn new(init: &KernelInit<'_>) -> Result<Buckets> {
        let count = init.attrs.int("initial_num_buckets")?;
        Ok(Buckets { count, max_load: init.attrs.float("max_load_factor")? })
    }

    fn check(&self) -> Result<()> {
        let max_load = self.max_load;
        require!(
            max_load > 0.0 && max_load < 1.0,
            "max_load_factor must be between 0 and 1, got: {max_load}"
        );
        require!(
            self.count >= 4 && self.count & (self.count - 1) == 0,
            "Number of buckets must be at least 4 and a power of 2, got: {}",
            self.count
        );
        Ok(())
    }
}

fn named(init: &KernelInit<'_>, kind: Kind) -> Result<Box<dyn Kernel>> {
    let maker = Arc::new(Maker::new(init, kind)?);
    let names = match init.attrs.bool("use_node_name_sharing")? {
        true => ResourceName::or_node(init)?,
        false => ResourceName::or_private(init)?,
    };
    let shared = init.attrs.str("shared_name")?.to_string();
    let shown = if shared.is_empty() { init.name.to_string() } else { shared };
    let checker = maker.clone();
    handle_kernel_of(
        init,
        names,
        move |ctx, name| maker.make(ctx, name),
        move |table| checker.check(table, &shown),
    )
}

fn anonymous(init: &KernelInit<'_>, kind: Kind) -> Result<Box<dyn Kernel>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let maker = Maker::new(init, kind)?;
    kernel(move |ctx| {
        let name = format!("Anonymous Resource-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let table = Arc::new(maker.make(ctx, &name)?);
        ctx.set_output(0, anonymous_handle(ctx, name, table));
        Ok(())
    })
}
