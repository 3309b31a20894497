//! Tensor lists and dense tensors: lists out of the rows of a tensor, and tensors out of lists.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::element_shape::{
    are_compatible, merged, merged_with, shape_operand, text, with_first, without_first,
};
use crate::tensor_list::{TensorList, input_list, input_list_of, list_value, output_changed_list};
use crate::{list_shapes, parts};

pub(crate) fn register(r: &mut Registry) {
    // `TensorListFromTensor(tensor: element_dtype, element_shape: shape_type) -> output_handle: variant`, the rows
    // of the tensor.
    r.op("TensorListFromTensor").shape(list_shapes::from_tensor).compute(from_tensor);

    // `TensorListSplit(tensor: element_dtype, element_shape: shape_type, lengths: int64) -> output_handle:
    // variant`, consecutive parts of the tensor with so many rows.
    r.op("TensorListSplit").shape(list_shapes::split).compute(split);

    // `TensorListScatter(tensor: element_dtype, indices: int32, element_shape: shape_type) -> output_handle:
    // variant`, a list with row `i` of the tensor as element `indices[i]`.
    // `TensorListScatterV2` has as last input the number of elements, -1 for as many as are needed.
    r.ops(["TensorListScatter", "TensorListScatterV2"], |op| {
        op.shape(list_shapes::list_of_operand(2)).compute(scatter);
    });

    // `TensorListScatterIntoExistingList(input_handle: variant, tensor: element_dtype, indices: int32) ->
    // output_handle: variant`, the list with row `i` of the tensor as element `indices[i]`.
    r.op("TensorListScatterIntoExistingList")
        .shape(list_shapes::scatter_into)
        .compute(scatter_into);

    // `TensorListStack(input_handle: variant, element_shape: int32; num_elements) -> tensor: element_dtype`, the
    // elements as rows.
    r.op("TensorListStack").shape(list_shapes::stack).cpu(stack);

    // `TensorListGather(input_handle: variant, indices: int32, element_shape: int32) -> values: element_dtype`,
    // elements `indices[i]` as rows.
    r.op("TensorListGather").shape(list_shapes::gather).cpu(gather);

    // `TensorListConcat(input_handle: variant; element_shape) -> tensor: element_dtype, lengths: int64`, the
    // rows of all elements.
    r.op("TensorListConcat").shape(list_shapes::concat).cpu(concat);

    // `TensorListConcatV2(input_handle: variant, element_shape: shape_type, leading_dims: int64) -> tensor:
    // element_dtype, lengths: int64`, where `leading_dims` are the rows of elements that have not been set.
    r.op("TensorListConcatV2").shape(list_shapes::concat_v2).cpu(concat_v2);
}

/// Refuses a scalar where rows are needed.
fn require_rows(tensor: &Tensor) -> Result<()> {
    require!(
        tensor.rank() > 0,
        "Tensor must be at least a vector, but saw shape: {}",
        tensor.shape()
    );
    Ok(())
}

/// A list for the rows of `tensor`, still without them.
fn list_for_rows(tensor: &Tensor, element: PartialShape) -> Result<TensorList> {
    require_rows(tensor)?;
    let row = Shape::new(&tensor.shape()[1..])?;
    require!(
        element.admits(&row),
        "Specified a list with shape {} from a tensor with shape {row}",
        text(&element)
    );
    Ok(TensorList::new(tensor.dtype(), element))
}

fn from_tensor(ctx: &mut OpContext<'_>) -> Result<()> {
    let tensor = ctx.input(0)?;
    let mut list = list_for_rows(tensor, shape_operand(ctx.input(1)?)?)?;
    list.resize(tensor.dim(0))?;
    for (element, row) in list.elements.iter_mut().zip(parts::all_rows(ctx, tensor)?) {
        *element = Some(row);
    }
    ctx.set_output(0, list_value(list));
    Ok(())
}

fn split(ctx: &mut OpContext<'_>) -> Result<()> {
    let (tensor, lengths) = (ctx.input(0)?, ctx.input(2)?);
    let element = shape_operand(ctx.input(1)?)?;
    let Some(rest) = without_first(&element) else {
        return Err(invalid!(
            "TensorListSplit requires element_shape to be at least of rank 1, but saw: {element}"
        ));
    };
    require_rows(tensor)?;
    require!(
        are_compatible(&rest, &PartialShape::from(&Shape::new(&tensor.shape()[1..])?)),
        "tensor shape {} is not compatible with element_shape {}",
        tensor.shape(),
        text(&element)
    );
    require!(
        lengths.rank() == 1,
        "Expected lengths to be a vector, received shape: {}",
        lengths.shape()
    );
    let total = tensor.dim(0);
    let mut list = TensorList::new(tensor.dtype(), element);
    list.resize(lengths.count())?;
    let mut start = 0;
    for (element, &length) in list.elements.iter_mut().zip(lengths.as_slice::<i64>()?) {
        let len =
            usize::try_from(length).map_err(|_| invalid!("Invalid value in lengths: {length}"))?;
        require!(
            len <= total - start,
            "Attempting to slice [{start}, {}] from tensor with length {total}",
            start.saturating_add(len)
        );
        *element = Some(parts::rows(ctx, tensor, start, len)?);
        start += len;
    }
    require!(
        start == total,
        "Unused values in tensor. Length of tensor: {total} Values used: {start}"
    );
    ctx.set_output(0, list_value(list));
    Ok(())
}

const NEGATIVE_INDEX: &str = "Indices in TensorListScatter must all be non-negative.";

fn scatter(ctx: &mut OpContext<'_>) -> Result<()> {
    let (tensor, indices) = (ctx.input(0)?, ctx.input(1)?);
    let element = shape_operand(ctx.input(2)?)?;
    let count = match ctx.num_inputs() {
        3 => -1,
        _ => {
            let count = ctx.input(3)?;
            require!(count.rank() == 0, "num_elements must be a scalar");
            count.scalar_value::<i32>()?
        }
    };
    require!(count >= -1, "TensorListScatter expects num_elements >= -1, found: {count}");
    let mut list = list_for_rows(tensor, element)?;
    require!(
        indices.count() == tensor.dim(0),
        "Invalid number of rows in input tensor. Expected: {} Actual: {}",
        indices.count(),
        tensor.dim(0)
    );
    for &index in indices.as_slice::<i32>()? {
        require!(index >= 0, "{NEGATIVE_INDEX}");
        require!(
            count == -1 || index < count,
            "TensorListScatter: Trying to scatter at index {index} in list with size {count}"
        );
    }
    list.resize(usize::try_from(count).unwrap_or(0))?;
    place_rows(&mut list, indices.as_slice()?, parts::all_rows(ctx, tensor)?)?;
    ctx.set_output(0, list_value(list));
    Ok(())
}

/// Sets the elements that `indices` name, none of them negative, to the rows.
fn place_rows(list: &mut TensorList, indices: &[i32], rows: Vec<Tensor>) -> Result<()> {
    let needed = indices.iter().max().map_or(0, |&max| max as usize + 1);
    if needed > list.len() {
        list.resize(needed)?;
    }
    for (&index, row) in indices.iter().zip(rows) {
        list.elements[index as usize] = Some(row);
    }
    Ok(())
}

fn scatter_into(ctx: &mut OpContext<'_>) -> Result<()> {
    let list = input_list(ctx, 0)?;
    let (tensor, indices) = (ctx.input(1)?, ctx.input(2)?);
    require!(
        tensor.dtype() == list.dtype,
        "Invalid data types; input tensor type: {} list element_type: {}",
        tensor.dtype(),
        list.dtype
    );
    require_rows(tensor)?;
    require!(
        indices.rank() == 1,
        "Expected indices to be a vector, but received shape: {}",
        indices.shape()
    );
    require!(
        indices.count() == tensor.dim(0),
        "Expected len(indices) == tensor.shape[0], but saw: {} vs. {}",
        indices.count(),
        tensor.dim(0)
    );
    require!(indices.as_slice::<i32>()?.iter().all(|&index| index >= 0), "{NEGATIVE_INDEX}");
    let rows = parts::all_rows(ctx, tensor)?;
    let indices = ctx.take_input(2)?;
    output_changed_list(ctx, |list| place_rows(list, indices.as_slice()?, rows))
}

fn stack(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    let expected = init.attrs.int("num_elements")?;
    kernel(move |ctx| {
        let list = input_list_of(ctx, 0, dtype)?;
        require!(
            expected == -1 || expected == list.len() as i64,
            "Operation expected a list with {expected} elements but got a list with {} elements.",
            list.len()
        );
        let mut shape = list.shape_with_operand(ctx, 1)?;
        require!(
            shape.is_fully_known() || list.len() > 0,
            "Tried to stack elements of an empty list with non-fully-defined element_shape: {}",
            text(&shape)
        );
        for element in list.elements.iter().flatten() {
            shape = merged_with(&shape, element.shape())?;
        }
        let shape = shape.to_shape().ok_or_else(|| {
            invalid!(
                "Tried to stack list which only contains uninitialized tensors and has a \
                 non-fully-defined element_shape: {}",
                text(&shape)
            )
        })?;
        let rows: Vec<Option<&Tensor>> = list.elements.iter().map(Option::as_ref).collect();
        let stacked =
            parts::stack(ctx, dtype, with_first(rows.len(), &shape)?, shape.count(), &rows)?;
        ctx.set_output(0, stacked);
        Ok(())
    })
}

fn gather(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let list = input_list_of(ctx, 0, dtype)?;
        let indices = ctx.input_slice::<i32>(1)?;
        let mut shape = list.shape_with_operand(ctx, 2)?;
        require!(
            shape.is_fully_known() || !indices.is_empty(),
            "Tried to gather 0-elements from a list with non-fully-defined shape: {}",
            text(&shape)
        );
        let is_known = list.shape.is_fully_known();
        let mut rows = Vec::with_capacity(indices.len());
        for &index in indices {
            let found = usize::try_from(index).ok().and_then(|index| list.elements.get(index));
            let Some(row) = found else {
                let (len, index) = (list.len(), index);
                return Err(match is_known {
                    true => invalid!("Index {index} out o range; list only has {len} elements."),
                    false => {
                        invalid!("Trying to gather element {index} in a list with {len} elements.")
                    }
                });
            };
            if let Some(row) = row {
                shape = merged_with(&shape, row.shape())?;
            }
            rows.push(row.as_ref());
        }
        let shape = shape.to_shape().ok_or_else(|| {
            invalid!(
                "Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: {}",
                text(&shape)
            )
        })?;
        let gathered =
            parts::stack(ctx, dtype, with_first(rows.len(), &shape)?, shape.count(), &rows)?;
        ctx.set_output(0, gathered);
        Ok(())
    })
}

fn concat(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    let rest = without_first(init.attrs.shape("element_shape")?)
        .ok_or_else(|| invalid!("element_shape must not be empty"))?;
    kernel(move |ctx| concatenate(ctx, dtype, None, rest.clone(), None))
}

fn concat_v2(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let element = input_list_of(ctx, 0, dtype)?.shape_with_operand(ctx, 1)?;
        let first = element.dims().and_then(|dims| dims.first()?.value());
        let rest = without_first(&element).ok_or_else(|| {
            invalid!("Concat requires elements to be at least vectors, found scalars instead.")
        })?;
        let leading_dims = ctx.input(2)?.to_i64s()?;
        concatenate(ctx, dtype, first, rest, Some(&leading_dims))
    })
}

/// Sets the outputs to the rows of all elements and to how many each has. `first` and `rest` are what the op
/// knows of the elements' shape; `leading_dims`, where the op has it, are the rows of the elements that have
/// not been set.
fn concatenate(
    ctx: &mut OpContext<'_>,
    dtype: DType,
    first: Option<i64>,
    mut rest: PartialShape,
    leading_dims: Option<&[i64]>,
) -> Result<()> {
    let list = input_list_of(ctx, 0, dtype)?;
    require!(
        list.len() > 0 || rest.is_fully_known(),
        "All except the first dimension must be fully defined when concating an empty tensor list. \
         element_shape: {}",
        text(&rest)
    );
    let declared = rest.clone();
    let mut common = Common::Unknown;
    for (index, element) in list.elements.iter().enumerate() {
        let Some(element) = element else {
            continue;
        };
        let [rows, row @ ..] = element.shape().dims() else {
            return Err(invalid!(
                "Concat saw a scalar shape at index {index} but requires at least vectors."
            ));
        };
        rest = merged(&rest, &PartialShape::from(&Shape::new(row)?))?;
        require!(
            first.is_none_or(|first| first == *rows),
            "First entry of element_shape input does not match the first dim of list element at index: \
             {index} Expected: {} Actual: {rows}",
            first.unwrap_or(-1)
        );
        common = common.and(*rows);
    }
    // The older op learns nothing from the elements of a list whose own shape says it all.
    if leading_dims.is_none() && list.shape.is_fully_known() {
        (rest, common) = (declared, Common::Unknown);
    }
    let rest = rest.to_shape().ok_or_else(|| {
        invalid!(
            "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not \
             fully defined: {}",
            text(&rest)
        )
    })?;
    let unset = UnsetRows { common: first.or(common.value()), leading_dims };
    let mut lengths = Vec::with_capacity(list.len());
    let mut pieces = Vec::with_capacity(list.len());
    let mut total = 0usize;
    for (index, element) in list.elements.iter().enumerate() {
        let rows = match element {
            Some(element) => element.dim(0),
            None => unset.rows(index)?,
        };
        let elements = with_first(rows, &rest)?.count();
        lengths.push(rows as i64);
        pieces.push((elements, element.as_ref()));
        total = total.saturating_add(rows);
    }
    let concatenated = parts::concat(ctx, dtype, with_first(total, &rest)?, &pieces)?;
    let lengths = Tensor::from_slice(Shape::vector(lengths.len()), &lengths)?;
    ctx.set_output(0, concatenated);
    ctx.set_output(1, lengths);
    Ok(())
}

/// The number of rows that all elements seen so far have.
#[derive(Clone, Copy)]
enum Common {
    Unknown,
    Is(i64),
    Differs,
}

impl Common {
    fn and(self, rows: i64) -> Common {
        match self {
            Common::Unknown => Common::Is(rows),
            Common::Is(common) if common == rows => self,
            _ => Common::Differs,
        }
    }

    fn value(self) -> Option<i64> {
        match self {
            Common::Is(rows) => Some(rows),
            _ => None,
        }
    }
}

/// How many rows elements have that have not been set.
struct UnsetRows<'a> {
    /// As many as all others, or as the operand says.
    common: Option<i64>,
    leading_dims: Option<&'a [i64]>,
}

impl UnsetRows<'_> {
    fn rows(&self, index: usize) -> Result<usize> {
        let given = self.leading_dims.and_then(|dims| dims.get(index));
        let rows = match (given.or(self.common.as_ref()), self.leading_dims) {
            (Some(&rows), _) => rows,
            (None, Some(dims)) => {
                return Err(invalid!(
                    "List contains uninitialized tensor at index {index} but leading_dims has only {} \
                     elements.",
                    dims.len()
                ));
            }
            (None, None) => {
                return Err(invalid!(
                    "Concating lists with uninitialized tensors is not supported in this version of \
                     TensorListConcat. Consider updating your GraphDef to run the newer version."
                ));
            }
        };
        usize::try_from(rows).map_err(|_| invalid!("Dimension {rows} must be >= 0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn attrs() -> [(&'static str, AttrValue); 2] {
        [of("element_dtype", DType::FLOAT), of("shape_type", DType::INT32)]
    }

    fn matrix(rows: i64, values: &[f32]) -> Tensor {
        let columns = values.len() as i64 / rows;
        floats(values).with_shape(Shape::new(&[rows, columns]).unwrap()).unwrap()
    }

    fn lengths(values: &[i64]) -> Tensor {
        Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
    }

    #[test]
    fn rows_become_elements_and_elements_rows() {
        let ops = Ops::new();
        let rows = matrix(3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let list = ops.first("TensorListFromTensor", &attrs(), vec![rows.clone(), any_shape()]);
        let list = list.unwrap();
        let read = |op: &str, inputs: &[Tensor]| {
            contents::<f32>(
                &ops.first(op, &attrs(), [std::slice::from_ref(&list), inputs].concat()).unwrap(),
            )
        };
        assert_eq!(read("TensorListStack", &[any_shape()]), contents(&rows));
        assert_eq!(
            read("TensorListGather", &[ints(&[2, 0, 2]), any_shape()]),
            (vec![3, 2], vec![5.0, 6.0, 1.0, 2.0, 5.0, 6.0])
        );
        assert_eq!(
            read("TensorListConcatV2", &[any_shape(), lengths(&[])]),
            (vec![6], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        );
        let inputs = vec![rows.clone(), ints(&[3, 0, 1]), any_shape(), Tensor::scalar(-1)];
        let scattered = ops.first("TensorListScatterV2", &attrs(), inputs).unwrap();
        let stack = |list: Tensor| {
            let stacked = ops.first("TensorListStack", &attrs(), vec![list, any_shape()]);
            contents::<f32>(&stacked.unwrap()).1
        };
        assert_eq!(stack(scattered.clone()), [3.0, 4.0, 5.0, 6.0, 0.0, 0.0, 1.0, 2.0]);
        let inputs = vec![scattered, matrix(1, &[7.0, 8.0]), ints(&[2])];
        let changed = ops.first("TensorListScatterIntoExistingList", &attrs(), inputs).unwrap();
        assert_eq!(stack(changed), [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0]);
    }

    #[test]
    fn aligned_rows_are_not_copied() {
        let ops = Ops::new();
        let rows = Tensor::zeros(DType::FLOAT, Shape::new(&[4, 32]).unwrap()).unwrap();
        let list = ops.first("TensorListFromTensor", &attrs(), vec![rows.clone(), any_shape()]);
        let inputs = vec![list.unwrap(), Tensor::scalar(3), any_shape()];
        let row = ops.first("TensorListGetItem", &attrs()[..1], inputs).unwrap();
        assert!(row.shares_buffer(&rows));
        assert_eq!(row.data() as usize - rows.data() as usize, 3 * 32 * 4);
    }

    #[test]
    fn parts_of_unlike_lengths() {
        let ops = Ops::new();
        let inputs = vec![floats(&[1.0, 2.0, 3.0]), any_shape(), lengths(&[2, 0, 1])];
        let list = ops.first("TensorListSplit", &attrs(), inputs).unwrap();
        let concat = |list: Tensor, dims: &[i64]| {
            let inputs = vec![list, ints(&[-1]), lengths(dims)];
            let outputs = ops.all("TensorListConcatV2", &attrs(), inputs)?;
            Ok::<_, tfcore_base::Error>((
                contents::<f32>(&outputs[0]).1,
                contents::<i64>(&outputs[1]).1,
            ))
        };
        let joined = concat(list.clone(), &[]).unwrap();
        assert_eq!(joined, (vec![1.0, 2.0, 3.0], vec![2, 0, 1]));
        let longer = ops.first("TensorListResize", &[], vec![list, Tensor::scalar(4)]).unwrap();
        let joined = concat(longer.clone(), &[9, 9, 9, 2]).unwrap();
        assert_eq!(joined, (vec![1.0, 2.0, 3.0, 0.0, 0.0], vec![2, 0, 1, 2]));
        for (dims, message) in [
            (
                &[9i64, 9][..],
                "List contains uninitialized tensor at index 3 but leading_dims has only 2 elements.",
            ),
            (&[0, 0, 0, -2], "Dimension -2 must be >= 0"),
        ] {
            assert_eq!(concat(longer.clone(), dims).unwrap_err().message(), message);
        }
        assert!(concat(longer, &[0, 0, 0, i64::MAX]).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let ops = Ops::new();
        let vector = || floats(&[1.0, 2.0]);
        let of_unlike = || {
            let inputs = vec![floats(&[1.0, 2.0, 3.0]), any_shape(), lengths(&[1, 2])];
            ops.first("TensorListSplit", &attrs(), inputs).unwrap()
        };
        let cases: [(&str, Vec<Tensor>, &str); 8] = [
            (
                "TensorListFromTensor",
                vec![vector(), ints(&[3])],
                "Specified a list with shape [3] from a tensor with shape []",
            ),
            (
                "TensorListSplit",
                vec![vector(), any_shape(), lengths(&[3])],
                "Attempting to slice [0, 3] from tensor with length 2",
            ),
            (
                "TensorListSplit",
                vec![vector(), any_shape(), lengths(&[i64::MAX, 1])],
                "Attempting to slice [0, 9223372036854775807] from tensor with length 2",
            ),
            (
                "TensorListSplit",
                vec![vector(), any_shape(), lengths(&[-1, 3])],
                "Invalid value in lengths: -1",
            ),
            (
                "TensorListScatter",
                vec![vector(), ints(&[0, -1]), any_shape()],
                "Indices in TensorListScatter must all be non-negative.",
            ),
            (
                "TensorListStack",
                vec![of_unlike(), any_shape()],
                "PartialTensorShape: Incompatible shapes during merge: [1] vs. [2]",
            ),
            (
                "TensorListGather",
                vec![of_unlike(), ints(&[2]), any_shape()],
                "Trying to gather element 2 in a list with 2 elements.",
            ),
            (
                "TensorListConcatV2",
                vec![of_unlike(), ints(&[2]), lengths(&[])],
                "First entry of element_shape input does not match the first dim of list element at index: 0 \
                 Expected: 2 Actual: 1",
            ),
        ];
        for (op, inputs, message) in cases {
            assert_eq!(ops.failure(op, &attrs(), inputs), message);
        }
    }

    #[test]
    fn the_older_concat_does_not_look_at_elements_of_known_shape() {
        let ops = Ops::new();
        let cases = [
            (any_shape(), None, Ok(vec![1.0, 2.0])),
            (ints(&[1]), Some(&[-1][..]), Ok(vec![1.0, 2.0])),
            (
                ints(&[1]),
                None,
                Err("Trying to concat list with only uninitialized tensors but \
                     element_shape_except_first_dim is not fully defined: <unknown>"),
            ),
        ];
        for (of_list, of_op, expected) in cases {
            let inputs = vec![matrix(2, &[1.0, 2.0]), of_list];
            let list = ops.first("TensorListFromTensor", &attrs(), inputs).unwrap();
            let shape = of_op
                .map_or(PartialShape::unknown(), |dims| PartialShape::from_i64s(dims).unwrap());
            let attrs = [
                of("element_dtype", DType::FLOAT),
                ("element_shape", AttrValue::Shape(shape.into())),
            ];
            let result = ops.all("TensorListConcat", &attrs, vec![list]);
            let result = result.map(|outputs| contents::<f32>(&outputs[0]).1);
            assert_eq!(
                result.map_err(|error| error.message().to_string()),
                expected.map_err(String::from)
            );
        }
    }
}
