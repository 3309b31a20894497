//! Variables behind resource handles: making handles, and reading, replacing and dropping variables.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tfcore_base::{Code, DType, Error, Result, failed_precondition, invalid};
use tfcore_framework::{
    DEFAULT_CONTAINER, InferenceContext, Kernel, KernelInit, OpContext, Registry, ShapeAndType,
    Variable, kernel, shape_fns,
};
use tfcore_tensor::{Dim, HandleKey, PartialShape, ResourceHandle, Shape, Tensor};

use crate::handle_shapes::{variable_shape, writes_value};

pub(crate) fn register(r: &mut Registry) {
    // `VarHandleOp(; container, shared_name, dtype, shape) -> resource`, a handle of the variable of that name.
    r.op("VarHandleOp").shape(var_handle_shape).cpu(var_handle);

    // `_VarHandlesOp(; containers, shared_names, dtypes, shapes) -> resources: N * resource`.
    r.op("_VarHandlesOp").shape(var_handles_shape).cpu(var_handles);

    // `AssignVariableOp(resource, value: dtype)`, replaces the value, or makes the variable with it.
    r.op("AssignVariableOp").shape(writes_value).cpu(assign_variable);

    // `ReadVariableOp(resource) -> value: dtype`.
    r.op("ReadVariableOp").shape(read_variable_shape).cpu(|init| {
        let dtype = init.attrs.dtype("dtype")?;
        kernel(move |ctx| read_variable(ctx, 0, dtype))
    });
    // The gradient by the handle is the gradient by the value.
    r.op("ReadVariableOp").gradient(|c| Ok(vec![Some(c.identity(c.grad(0)))]));

    // `_ReadVariablesOp(resources: N * resource) -> values: dtypes`.
    r.op("_ReadVariablesOp").shape(read_variables_shape).cpu(|init| {
        let dtypes = init.attrs.dtypes("dtypes")?.to_vec();
        kernel(move |ctx| {
            dtypes.iter().enumerate().try_for_each(|(k, &dtype)| read_variable(ctx, k, dtype))
        })
    });

    // `VarIsInitializedOp(resource) -> is_initialized: bool`.
    r.op("VarIsInitializedOp").shape(shape_fns::scalar).compute(|ctx| {
        ctx.handle(0)?;
        let initialized = ctx.variable(0).is_ok_and(|variable| variable.is_initialized());
        ctx.set_output(0, Tensor::scalar(initialized));
        Ok(())
    });

    // `VariableShape(input: resource) -> output: out_type`.
    r.op("VariableShape").shape(variable_shape_shape).cpu(shape_of_variable);

    // `DestroyResourceOp(resource; ignore_lookup_error)`, forgets a resource of any kind.
    r.op("DestroyResourceOp").shape(shape_fns::no_outputs).cpu(|init| {
        let ignore = init.attrs.bool("ignore_lookup_error")?;
        kernel(move |ctx| {
            let key = ctx.handle(0)?;
            match ctx.resources().remove(&key.container, &key.type_name, &key.name) {
                Err(error) if !(ignore && error.code() == Code::NotFound) => Err(error),
                _ => Ok(()),
            }
        })
    });

    // `DisableCopyOnRead(resource)`, leaves a variable's reads without copies, as all of ours are.
    r.op("DisableCopyOnRead")
        .shape(shape_fns::no_outputs)
        .compute(|ctx| ctx.variable(0).map(|_| ()));
}

fn var_handle_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::scalar());
    let shape = ctx.attrs.shape("shape")?.clone();
    let dtype = ctx.attrs.dtype("dtype")?;
    ctx.set_output_handle(0, vec![ShapeAndType { shape, dtype }]);
    Ok(())
}

fn var_handles_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (shapes, dtypes) = (ctx.attrs.shapes("shapes")?, ctx.attrs.dtypes("dtypes")?);
    let described: Vec<ShapeAndType> = shapes
        .iter()
        .zip(dtypes)
        .map(|(shape, &dtype)| ShapeAndType { shape: shape.clone(), dtype })
        .collect();
    for (index, data) in described.into_iter().enumerate().take(ctx.num_outputs()) {
        ctx.set_output(index, PartialShape::scalar());
        ctx.set_output_handle(index, vec![data]);
    }
    Ok(())
}

/// The shared name that asks for a new variable at every run.
const ANONYMOUS: &str = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

/// What a node says of the variable whose handle it makes.
struct HandleSpec {
    container: String,
    name: String,
    dtype: DType,
    shape: PartialShape,
    /// The handle, once the device is known.
    made: OnceLock<Tensor>,
}

impl HandleSpec {
    fn new(container: &str, name: &str, dtype: DType, shape: &PartialShape) -> HandleSpec {
        let container = if container.is_empty() { DEFAULT_CONTAINER } else { container };
        HandleSpec {
            container: container.to_string(),
            name: name.to_string(),
            dtype,
            shape: shape.clone(),
            made: OnceLock::new(),
        }
    }

    fn handle(&self, ctx: &OpContext<'_>) -> Tensor {
        static NEXT_ANONYMOUS: AtomicU64 = AtomicU64::new(0);
        if self.name == ANONYMOUS {
            let id = NEXT_ANONYMOUS.fetch_add(1, Ordering::Relaxed);
            return self.make(ctx, format!("_AnonymousVar{id}"));
        }
        self.made.get_or_init(|| self.make(ctx, self.name.clone())).clone()
    }

    fn make(&self, ctx: &OpContext<'_>, name: String) -> Tensor {
        Tensor::scalar(ResourceHandle(Some(Arc::new(HandleKey {
            device: ctx.step().device.to_string(),
            container: self.container.clone(),
            name,
            type_name: Variable::RESOURCE.to_string(),
            dtypes_and_shapes: vec![(self.dtype, self.shape.clone())],
            resource: None,
        }))))
    }
}

fn var_handle(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let spec = HandleSpec::new(
        attrs.str("container")?,
        attrs.str("shared_name")?,
        attrs.dtype("dtype")?,
        attrs.shape("shape")?,
    );
    kernel(move |ctx| {
        let handle = spec.handle(ctx);
        ctx.set_output(0, handle);
        Ok(())
    })
}

fn var_handles(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let text = |bytes: &Arc<[u8]>| String::from_utf8_lossy(bytes).into_owned();
    let containers = init.attrs.string_list("containers")?;
    let names = init.attrs.string_list("shared_names")?;
    let (dtypes, shapes) = (init.attrs.dtypes("dtypes")?, init.attrs.shapes("shapes")?);
    let count = init.output_dtypes.len();
    if [containers.len(), names.len(), dtypes.len(), shapes.len()] != [count; 4] {
        return Err(invalid!(
            "_VarHandlesOp needs a container, name, dtype and shape for each of its {count} handles"
        ));
    }
    let specs: Vec<HandleSpec> = (0..count)
        .map(|k| HandleSpec::new(&text(&containers[k]), &text(&names[k]), dtypes[k], &shapes[k]))
        .collect();
    kernel(move |ctx| {
        for (index, spec) in specs.iter().enumerate() {
            let handle = spec.handle(ctx);
            ctx.set_output(index, handle);
        }
        Ok(())
    })
}

fn assign_variable(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    let validate = init.attrs.bool("validate_shape")?;
    kernel(move |ctx| {
        let value = ctx.take_input(1)?;
        let key = ctx.handle(0)?;
        let variable =
            ctx.resources().get_or_create(&key.container, Variable::RESOURCE, &key.name, || {
                Ok(Variable::new(key.name.as_str(), dtype, value.shape().clone()))
            })?;
        if variable.dtype() != dtype {
            return Err(invalid!(
                "Trying to assign variable with wrong dtype. Expected {} got {dtype}",
                variable.dtype()
            ));
        }
        let shape = value.shape().clone();
        variable.write_if(value, |old, initialized| {
            match !validate || !initialized || *old == shape {
                true => Ok(()),
                false => Err(invalid!(
                    "Trying to assign to variable with tensor with wrong shape. Expected {old} got {shape}"
                )),
            }
        })
    })
}

fn read_variable_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = variable_shape(ctx, 0, ctx.attrs.dtype("dtype")?)?;
    ctx.set_output(0, shape);
    // A variable of handles or variants says of its elements what follows its own entry.
    if let Some([_, inner @ ..]) = ctx.input_handle(0)
        && !inner.is_empty()
    {
        ctx.set_output_handle(0, inner.to_vec());
    }
    Ok(())
}

fn read_variables_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let dtypes = ctx.attrs.dtypes("dtypes")?;
    if dtypes.len() != ctx.num_inputs() {
        return Err(invalid!("Mismatched number of arguments to ReadVariablesOp"));
    }
    for (index, &dtype) in dtypes.iter().enumerate() {
        let shape = variable_shape(ctx, index, dtype)?;
        ctx.set_output(index, shape);
    }
    Ok(())
}

fn read_variable(ctx: &mut OpContext<'_>, index: usize, dtype: DType) -> Result<()> {
    let variable = ctx.variable(index).map_err(|error| not_found(ctx, index, error))?;
    if variable.dtype() != dtype {
        return Err(invalid!(
            "Trying to read variable with wrong dtype. Expected {dtype} got {}",
            variable.dtype()
        ));
    }
    let value = variable.read()?;
    ctx.set_output(index, value);
    Ok(())
}

/// What users see when they read a variable that nobody has assigned.
fn not_found(ctx: &OpContext<'_>, index: usize, error: Error) -> Error {
    match ctx.handle(index) {
        Ok(key) if error.code() == Code::NotFound => failed_precondition!(
            "Could not find variable {}. This could mean that the variable has been deleted. In TF1, it \
             can also mean the variable is uninitialized. Debug info: container={}, status error \
             message={}",
            key.name,
            key.container,
            error.message()
        ),
        _ => error,
    }
}

fn variable_shape_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let rank = ctx.input_handle(0).and_then(|data| data.first()?.shape.rank());
    let len = rank.map_or_else(Dim::fresh, |rank| Dim::new(rank as i64));
    ctx.set_output(0, PartialShape::vector(len));
    Ok(())
}

fn shape_of_variable(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let narrow = init.attrs.dtype("out_type")? == DType::INT32;
    kernel(move |ctx| {
        let value = ctx.variable(0)?.read()?;
        let dims = value.shape().dims();
        let shape = Shape::vector(dims.len());
        let out = if narrow {
            let dims: Result<Vec<i32>> = dims
                .iter()
                .map(|&size| {
                    i32::try_from(size).map_err(|_| {
                        invalid!("Dimension {size} does not fit the output type int32")
                    })
                })
                .collect();
            Tensor::from_slice(shape, &dims?)?
        } else {
            Tensor::from_slice(shape, dims)?
        };
        ctx.set_output(0, out);
        Ok(())
    })
}
