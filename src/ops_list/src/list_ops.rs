//! Tensor lists element by element: making lists, asking and changing them.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, describe_tensor, kernel, shape_fns,
};
use tfcore_tensor::{Shape, Tensor, Variant};

use crate::element_shape::{merged_with, shape_operand, shape_value, text};
use crate::tensor_list::{
    TensorList, input_list, input_list_of, list_value, output_changed_list, take_variants,
    variant_text,
};
use crate::{list_shapes, parts};

pub(crate) fn register(r: &mut Registry) {
    // `EmptyTensorList(element_shape: shape_type, max_num_elements: int32; element_dtype) -> handle: variant`.
    r.op("EmptyTensorList").shape(list_shapes::list_of_operand(0)).cpu(empty_list);

    // `TensorListReserve(element_shape: shape_type, num_elements: int32; element_dtype) -> handle: variant`, a list
    // of elements that have not been set.
    r.op("TensorListReserve").shape(list_shapes::list_of_operand(0)).cpu(reserve);

    // `TensorListLength(input_handle: variant) -> length: int32`.
    r.op("TensorListLength").shape(shape_fns::scalar).compute(|ctx| {
        let len = input_list(ctx, 0)?.len();
        ctx.set_output(0, Tensor::scalar(len as i32));
        Ok(())
    });

    // `TensorListElementShape(input_handle: variant) -> element_shape: shape_type`.
    r.op("TensorListElementShape").shape(list_shapes::element_shape).compute(|ctx| {
        let shape = shape_value(&input_list(ctx, 0)?.shape, ctx.output_dtype(0))?;
        ctx.set_output(0, shape);
        Ok(())
    });

    // `TensorListGetItem(input_handle: variant, index: int32, element_shape: Tshape) -> item: element_dtype`, zeros
    // for an element that has not been set.
    r.op("TensorListGetItem").shape(list_shapes::get_item).cpu(get_item);

    // `TensorListSetItem(input_handle: variant, index: int32, item: element_dtype) -> output_handle: variant`.
    r.op("TensorListSetItem").shape(list_shapes::set_item).cpu(set_item);

    // `TensorListPushBack(input_handle: variant, tensor: element_dtype) -> output_handle: variant`.
    r.op("TensorListPushBack").shape(list_shapes::push_back).cpu(push_back);

    // `TensorListPushBackBatch(input_handles: variant, tensor: element_dtype) -> output_handles: variant`, row
    // `i` of the tensor is pushed to list `i`.
    r.op("TensorListPushBackBatch").shape(list_shapes::push_back_batch).cpu(push_back_batch);

    // `TensorListPopBack(input_handle: variant, element_shape: int32) -> output_handle: variant, tensor:
    // element_dtype`, takes the last element off.
    r.op("TensorListPopBack").shape(list_shapes::pop_back).cpu(pop_back);

    // `TensorListResize(input_handle: variant, size: int32) -> output_handle: variant`.
    r.op("TensorListResize").shape(list_shapes::resize).compute(resize);

    // `TensorListConcatLists(input_a: variant, input_b: variant) -> output: variant`, the elements of one list
    // behind those of the other.
    r.op("TensorListConcatLists").shape(list_shapes::concat_lists).cpu(concat_lists);
}

fn empty_list(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let limit = ctx.input(1)?;
        require!(
            limit.rank() == 0,
            "max_num_elements expected to be a scalar but got shape: {}",
            limit.shape()
        );
        let max_elements = limit.scalar_value()?;
        let mut list = TensorList::new(dtype, shape_operand(ctx.input(0)?)?);
        list.max_elements = max_elements;
        ctx.set_output(0, list_value(list));
        Ok(())
    })
}

fn reserve(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let mut list = TensorList::new(dtype, shape_operand(ctx.input(0)?)?);
        let count = ctx.input(1)?;
        require!(
            count.count() == 1,
            "The num_elements to reserve must be a tensor size 1, but got {}",
            count.shape()
        );
        let count: i32 = count.scalar_value()?;
        let len = usize::try_from(count).map_err(|_| {
            invalid!("The num_elements to reserve must be a non negative number, but got {count}")
        })?;
        list.resize(len)?;
        ctx.set_output(0, list_value(list));
        Ok(())
    })
}

fn get_item(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let list = input_list_of(ctx, 0, dtype)?;
        let index = list.index(ctx.input(1)?.scalar_value()?, "access")?;
        let item = match &list.elements[index] {
            Some(item) => item.clone(),
            None => ctx.allocate_zeros(dtype, unset_shape(ctx, list)?)?,
        };
        ctx.set_output(0, item);
        Ok(())
    })
}

/// The shape of an element that has not been set: what the list and operand 2 tell, or else the other
/// elements.
fn unset_shape(ctx: &OpContext<'_>, list: &TensorList) -> Result<Shape> {
    let mut shape = list.shape_with_operand(ctx, 2)?;
    if !shape.is_fully_known() {
        for element in list.elements.iter().flatten() {
            shape = merged_with(&shape, element.shape())?;
        }
    }
    shape.to_shape().ok_or_else(|| {
        invalid!(
            "Trying to read an uninitialized tensor but element_shape is not fully defined: {} and no list \
             element is set.",
            text(&shape)
        )
    })
}

fn set_item(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    let grows = init.attrs.bool("resize_if_index_out_of_bounds")?;
    kernel(move |ctx| {
        let list = input_list_of(ctx, 0, dtype)?;
        let index = ctx.input(1)?;
        require!(
            index.rank() == 0,
            "Expected argument 1 to be a scalar. Received{}",
            describe_tensor(index)
        );
        let index: i32 = index.scalar_value()?;
        let index = match usize::try_from(index) {
            Ok(beyond) if grows && beyond >= list.len() => beyond,
            _ => list.index(index, "modify")?,
        };
        let item = ctx.input(2)?;
        require!(
            list.shape.admits(item.shape()),
            "Tried to set a tensor with incompatible shape at a list index. Item element shape: {} list \
             shape: {}",
            item.shape(),
            text(&list.shape)
        );
        let item = ctx.take_input(2)?;
        output_changed_list(ctx, |list| {
            if index >= list.len() {
                list.resize(index + 1)?;
            }
            list.elements[index] = Some(item);
            Ok(())
        })
    })
}

fn push_back(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let list = input_list(ctx, 0)?;
        let tensor = ctx.input(1)?;
        require!(
            list.shape.admits(tensor.shape()),
            "Tried to append a tensor with incompatible shape to a list. Op element shape: {} list shape: {}",
            tensor.shape(),
            text(&list.shape)
        );
        list.require_dtype(dtype)?;
        let is_full = usize::try_from(list.max_elements).is_ok_and(|max| list.len() >= max);
        require!(
            !is_full,
            "Tried to push item into a full list list size: {} max_num_elements: {}",
            list.len(),
            list.max_elements
        );
        let tensor = ctx.take_input(1)?;
        output_changed_list(ctx, |list| {
            list.elements.push(Some(tensor));
            Ok(())
        })
    })
}

fn push_back_batch(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let rows = check_batch(ctx, dtype)?;
        let mut lists = take_variants(ctx, 0)?;
        for (list, row) in lists.as_mut_slice::<Variant>()?.iter_mut().zip(rows) {
            if let Some(list) = list.make_mut::<TensorList>() {
                list.elements.push(Some(row));
            }
        }
        ctx.set_output(0, lists);
        Ok(())
    })
}

/// The rows of input 1, one for each of the lists at input 0.
fn check_batch(ctx: &OpContext<'_>, dtype: DType) -> Result<Vec<Tensor>> {
    let (handles, tensor) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        tensor.rank() > 0,
        "Expected tensor to be at least a vector, but saw shape: {}",
        tensor.shape()
    );
    require!(
        handles.rank() == 1,
        "Expected input_handles to be a vector, but saw shape: {}",
        handles.shape()
    );
    require!(
        tensor.dim(0) == handles.count(),
        "Expected tensor.shape[0] == input_handles.size, but saw {} vs. {}",
        tensor.dim(0),
        handles.count()
    );
    let element = Shape::new(&tensor.shape()[1..])?;
    for (index, variant) in handles.as_slice::<Variant>()?.iter().enumerate() {
        let list: &TensorList = variant.get().ok_or_else(|| {
            invalid!(
                "Input handle at index {index} is not a list. Saw: '{}'",
                variant_text(variant)
            )
        })?;
        require!(
            list.shape.admits(&element),
            "Tried to append a tensor with incompatible shape to a list at index {index}. Op element shape: \
             {element} list shape: {}",
            text(&list.shape)
        );
        require!(
            list.dtype == dtype,
            "Invalid data type at index {index}; op elements {dtype} but list elements {}",
            list.dtype
        );
    }
    (0..handles.count()).map(|index| parts::row(ctx, tensor, index)).collect()
}

fn pop_back(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        let list = input_list_of(ctx, 0, dtype)?;
        let zeros = match list.elements.last() {
            None => return Err(invalid!("Trying to pop from an empty list.")),
            Some(Some(_)) => None,
            Some(None) => {
                let shape = list.shape_with_operand(ctx, 1)?;
                let shape = shape.to_shape().ok_or_else(|| {
                    invalid!(
                        "Trying to read an uninitialized tensor but element_shape is not fully defined.{}",
                        text(&shape)
                    )
                })?;
                Some(ctx.allocate_zeros(dtype, shape)?)
            }
        };
        let mut last = None;
        output_changed_list(ctx, |list| {
            last = list.elements.pop().flatten();
            Ok(())
        })?;
        if let Some(item) = last.or(zeros) {
            ctx.set_output(1, item);
        }
        Ok(())
    })
}

fn resize(ctx: &mut OpContext<'_>) -> Result<()> {
    input_list(ctx, 0)?;
    let size = ctx.input(1)?;
    require!(size.rank() == 0, "size must be a scalar");
    let size: i32 = size.scalar_value()?;
    let len = usize::try_from(size)
        .map_err(|_| invalid!("TensorListSlice expects size to be non-negative. Got: {size}"))?;
    output_changed_list(ctx, |list| list.resize(len))
}

fn concat_lists(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("element_dtype")?;
    kernel(move |ctx| {
        check_pairs(ctx, dtype)?;
        let others = ctx.take_input(1)?;
        let mut lists = take_variants(ctx, 0)?;
        let others = others.as_slice::<Variant>()?;
        for (list, other) in lists.as_mut_slice::<Variant>()?.iter_mut().zip(others) {
            if let (Some(list), Some(other)) = (list.make_mut(), other.get()) {
                let (list, other): (&mut TensorList, &TensorList) = (list, other);
                list.elements.extend_from_slice(&other.elements);
            }
        }
        ctx.set_output(0, lists);
        Ok(())
    })
}

/// Refuses lists that are no continuation of one another.
fn check_pairs(ctx: &OpContext<'_>, dtype: DType) -> Result<()> {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        a.shape() == b.shape(),
        "Incompatible input TensorList tensor shapes: {} vs. {}",
        a.shape(),
        b.shape()
    );
    let list = |variant: &'_ Variant, name: &str, index: usize| -> Result<()> {
        match variant.get::<TensorList>() {
            None => Err(invalid!(
                "{name} is not a TensorList at index {index}.  Saw: '{}'",
                variant_text(variant)
            )),
            Some(list) if list.dtype != dtype => Err(invalid!(
                "{name}[{index}].dtype != element_dtype.  Saw: {} vs. {dtype}",
                list.dtype
            )),
            Some(_) => Ok(()),
        }
    };
    let pairs = a.as_slice::<Variant>()?.iter().zip(b.as_slice::<Variant>()?);
    for (index, (a, b)) in pairs.enumerate() {
        list(a, "input_a", index)?;
        list(b, "input_b", index)?;
        let (Some(a), Some(b)) = (a.get::<TensorList>(), b.get::<TensorList>()) else {
            continue;
        };
        require!(
            a.shape == b.shape,
            "input_a and input_b TensorList element shapes are not identical at index {index}.  Saw {} vs. {}",
            text(&a.shape),
            text(&b.shape)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn element() -> (&'static str, AttrValue) {
        of("element_dtype", DType::FLOAT)
    }

    fn sized() -> [(&'static str, AttrValue); 2] {
        [element(), of("shape_type", DType::INT32)]
    }

    fn list(ops: &Ops, values: &[f32]) -> Tensor {
        let empty = ops.first("EmptyTensorList", &sized(), vec![any_shape(), Tensor::scalar(-1)]);
        values.iter().fold(empty.unwrap(), |list, &value| {
            ops.first("TensorListPushBack", &[element()], vec![list, Tensor::scalar(value)])
                .unwrap()
        })
    }

    fn values(list: &Tensor) -> Vec<Option<f32>> {
        let list = list.scalar_value::<Variant>().unwrap();
        let value = |element: &Option<Tensor>| element.as_ref()?.scalar_value().ok();
        list.get::<TensorList>().unwrap().elements.iter().map(value).collect()
    }

    fn address(list: &Tensor) -> *const TensorList {
        std::ptr::from_ref(list.as_slice::<Variant>().unwrap()[0].get().unwrap())
    }

    #[test]
    fn a_list_is_changed_in_place_unless_others_hold_it() {
        let ops = Ops::new();
        let changes: [(&str, &[Tensor], &[Option<f32>]); 4] = [
            ("TensorListPushBack", &[Tensor::scalar(3f32)], &[Some(1.0), Some(2.0), Some(3.0)]),
            ("TensorListPopBack", &[any_shape()], &[Some(1.0)]),
            (
                "TensorListSetItem",
                &[Tensor::scalar(0), Tensor::scalar(9f32)],
                &[Some(9.0), Some(2.0)],
            ),
            ("TensorListResize", &[Tensor::scalar(3)], &[Some(1.0), Some(2.0), None]),
        ];
        for (op, operands, expected) in changes {
            let attrs = [element()];
            let attrs = if op == "TensorListResize" { &[][..] } else { &attrs[..] };
            let before = list(&ops, &[1.0, 2.0]);
            let place = address(&before);
            let shared = before.clone();
            let inputs = |list: Tensor| [&[list], operands].concat();
            let changed = ops.first(op, attrs, inputs(before)).unwrap();
            assert_eq!(values(&changed), expected, "{op}");
            assert_eq!(values(&shared), [Some(1.0), Some(2.0)], "{op}");
            let changed = ops.first(op, attrs, inputs(shared)).unwrap();
            assert_eq!((values(&changed).as_slice(), address(&changed)), (expected, place), "{op}");
        }
    }

    #[test]
    fn elements_that_nobody_has_set_are_zeros() {
        let ops = Ops::new();
        let reserved =
            ops.first("TensorListReserve", &sized(), vec![any_shape(), Tensor::scalar(2)]);
        let reserved = reserved.unwrap();
        let get = |list: &Tensor, shape: Tensor| {
            let inputs = vec![list.clone(), Tensor::scalar(0), shape];
            ops.first("TensorListGetItem", &[element()], inputs)
        };
        assert_eq!(contents::<f32>(&get(&reserved, ints(&[2])).unwrap()), (vec![2], vec![0.0; 2]));
        assert!(
            get(&reserved, any_shape()).unwrap_err().message().ends_with("no list element is set.")
        );
        // One element tells the shape of the others.
        let inputs = vec![reserved.clone(), Tensor::scalar(1), floats(&[1.0, 2.0, 3.0])];
        let set = ops.first("TensorListSetItem", &[element()], inputs).unwrap();
        assert_eq!(get(&set, any_shape()).unwrap().shape().dims(), [3]);
        let popped =
            ops.all("TensorListPopBack", &[element()], vec![reserved, ints(&[1])]).unwrap();
        assert_eq!(contents::<f32>(&popped[1]), (vec![1], vec![0.0]));
    }

    #[test]
    fn lists_of_several_handles() {
        let ops = Ops::new();
        let handles = |lists: &[Tensor]| {
            let variants: Vec<Variant> =
                lists.iter().map(|list| list.scalar_value().unwrap()).collect();
            Tensor::from_slice(Shape::vector(lists.len()), &variants).unwrap()
        };
        let (a, b) = (list(&ops, &[1.0]), list(&ops, &[2.0]));
        let each = |handles: &Tensor| -> Vec<Vec<Option<f32>>> {
            let variants = handles.as_slice::<Variant>().unwrap();
            variants.iter().map(|variant| values(&Tensor::scalar(variant.clone()))).collect()
        };
        let inputs = vec![handles(&[a.clone(), b.clone()]), floats(&[3.0, 4.0])];
        let pushed = ops.first("TensorListPushBackBatch", &[element()], inputs).unwrap();
        assert_eq!(each(&pushed), [[Some(1.0), Some(3.0)], [Some(2.0), Some(4.0)]]);
        // A list may be continued by itself.
        let pair = handles(&[a.clone(), b]);
        let inputs = vec![pair.clone(), pair];
        let doubled = ops.first("TensorListConcatLists", &[element()], inputs).unwrap();
        assert_eq!(each(&doubled), [[Some(1.0); 2], [Some(2.0); 2]]);
        assert_eq!(values(&a), [Some(1.0)]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let ops = Ops::new();
        let two = || list(&ops, &[1.0, 2.0]);
        let float = [element()];
        let int = [of("element_dtype", DType::INT32)];
        let empty = || ops.first("EmptyTensorList", &sized(), vec![ints(&[2]), Tensor::scalar(0)]);
        let cases: [(&str, AttrPairs<'_>, Vec<Tensor>, &str); 10] = [
            (
                "TensorListGetItem",
                &float,
                vec![two(), Tensor::scalar(-1), any_shape()],
                "Trying to access element -1 in a list with 2 elements.",
            ),
            (
                "TensorListGetItem",
                &int,
                vec![two(), Tensor::scalar(0), any_shape()],
                "Invalid data types; op elements int32 but list elements float",
            ),
            (
                "TensorListSetItem",
                &float,
                vec![two(), Tensor::scalar(2), Tensor::scalar(0f32)],
                "Trying to modify element 2 in a list with 2 elements.",
            ),
            (
                "TensorListSetItem",
                &float,
                vec![two(), ints(&[1, 0]), Tensor::scalar(0f32)],
                "Expected argument 1 to be a scalar. ReceivedTensor<type: int32 shape: [2] values: 1 0>",
            ),
            (
                "TensorListPushBack",
                &float,
                vec![empty().unwrap(), Tensor::scalar(0f32)],
                "Tried to append a tensor with incompatible shape to a list. Op element shape: [] list shape: \
                 [2]",
            ),
            (
                "TensorListPushBack",
                &float,
                vec![empty().unwrap(), floats(&[1.0, 2.0])],
                "Tried to push item into a full list list size: 0 max_num_elements: 0",
            ),
            (
                "TensorListPopBack",
                &float,
                vec![empty().unwrap(), any_shape()],
                "Trying to pop from an empty list.",
            ),
            (
                "TensorListResize",
                &[],
                vec![two(), Tensor::scalar(-1)],
                "TensorListSlice expects size to be non-negative. Got: -1",
            ),
            (
                "TensorListLength",
                &[],
                vec![Tensor::scalar(Variant::default())],
                "Input handle is not a list. Saw: 'Variant<type:  value: >'",
            ),
            (
                "TensorListReserve",
                &sized(),
                vec![any_shape(), Tensor::scalar(-1)],
                "The num_elements to reserve must be a non negative number, but got -1",
            ),
        ];
        for (op, attrs, inputs, message) in cases {
            assert_eq!(ops.failure(op, attrs, inputs), message);
        }
    }
}
