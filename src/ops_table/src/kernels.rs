//! What is done with tables: lookups, changes, exports.

use tfcore_base::{Result, require};
use tfcore_framework::named::{Signature, find};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::Tensor;

use crate::shapes;
use crate::table::Table;

pub(crate) fn register(r: &mut Registry) {
    // `LookupTableFind(table_handle, keys: Tin, default_value: Tout) -> values: Tout`.
    r.ops(["LookupTableFind", "LookupTableFindV2"], |op| {
        op.shape(shapes::find).cpu(|init| {
            table_kernel(init, |table, signature, ctx| {
                let (key, value) = (table.key.dtype, table.value.dtype);
                signature.check(&[key, value], &[value])?;
                table.find(ctx, ctx.input(1)?, ctx.input(2)?)
            })
        });
    });
    // `LookupTableInsert(table_handle, keys: Tin, values: Tout)`.
    r.ops(["LookupTableInsert", "LookupTableInsertV2"], |op| {
        op.shape(shapes::insert).cpu(|init| {
            table_kernel(init, |table, signature, ctx| {
                signature.check(&[table.key.dtype, table.value.dtype], &[])?;
                table.insert(ctx.input(1)?, ctx.input(2)?)
            })
        });
    });
    // `LookupTableImport(table_handle, keys: Tin, values: Tout)`, in place of what the table has.
    r.ops(["LookupTableImport", "LookupTableImportV2"], |op| {
        op.shape(shapes::insert).cpu(|init| {
            table_kernel(init, |table, signature, ctx| {
                signature.check(&[table.key.dtype, table.value.dtype], &[])?;
                table.import(ctx.input(1)?, ctx.input(2)?)
            })
        });
    });
    // `LookupTableRemoveV2(table_handle, keys: Tin)`.
    r.op("LookupTableRemoveV2").shape(shapes::remove).cpu(|init| {
        table_kernel(init, |table, signature, ctx| {
            signature.check(&[table.key.dtype], &[])?;
            table.remove(ctx.input(1)?)
        })
    });
    // `LookupTableSize(table_handle) -> size: int64`.
    r.ops(["LookupTableSize", "LookupTableSizeV2"], |op| {
        op.shape(shapes::size).cpu(|init| {
            table_kernel(init, |table, _, ctx| {
                ctx.set_output(0, Tensor::scalar(table.len() as i64));
                Ok(())
            })
        });
    });
    // `LookupTableExport(table_handle) -> keys: Tkeys, values: Tvalues`.
    r.ops(["LookupTableExport", "LookupTableExportV2"], |op| {
        op.shape(shapes::export).cpu(|init| table_kernel(init, |table, _, ctx| table.export(ctx)));
    });
    // `InitializeTable(table_handle, keys: Tkey, values: Tval)`, of a table that is filled once.
    r.ops(["InitializeTable", "InitializeTableV2"], |op| {
        op.shape(shapes::fill).cpu(|init| {
            table_kernel(init, |table, signature, ctx| {
                table.check_fillable()?;
                signature.check(&[table.key.dtype, table.value.dtype], &[])?;
                let (keys, values) = (ctx.input(1)?, ctx.input(2)?);
                require!(
                    keys.rank() == 1,
                    "Keys must be a vector, but received shape{}",
                    keys.shape()
                );
                require!(
                    values.rank() == 1,
                    "Values must be a vector, but received shape{}",
                    values.shape()
                );
                require!(
                    keys.count() == values.count(),
                    "Keys and values must have the same size {} vs {}",
                    keys.count(),
                    values.count()
                );
                table.fill(keys, values)
            })
        });
    });
}

/// A kernel of the table at input 0.
pub(crate) fn table_kernel(
    init: &KernelInit<'_>,
    compute: impl Fn(&Table, &Signature, &OpContext<'_>) -> Result<()> + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>> {
    let signature = Signature::new(init);
    kernel(move |ctx| compute(&*find::<Table>(ctx, 0)?, &signature, ctx))
}
