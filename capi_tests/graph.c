/* Building operations, what is refused, and what a graph and its operations tell. */
#include "nodes.h"
#include "pb.h"

/* ---- building ---- */

static void placeholder_and_its_queries(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  CHECK_STR(TF_OperationName(x), "x");
  CHECK_STR(TF_OperationOpType(x), "Placeholder");
  CHECK_STR(TF_OperationDevice(x), "");
  CHECK_INT(TF_OperationNumInputs(x), 0);
  CHECK_INT(TF_OperationNumOutputs(x), 1);
  CHECK_INT(TF_OperationOutputType(output(x, 0)), TF_FLOAT);
  CHECK_INT(TF_OperationNumControlInputs(x), 0);
  CHECK_INT(TF_OperationNumControlOutputs(x), 0);
  CHECK_INT(TF_OperationOutputNumConsumers(output(x, 0)), 0);
  CHECK_INT(TF_OperationOutputListLength(x, "output", status), 1);
  CHECK_OK(status);
  TF_DeleteGraph(g);
}

static void inputs_and_consumers(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  TF_Operation *y = placeholder(g, TF_FLOAT, "y");
  TF_Operation *sum = binary(g, "AddV2", output(x, 0), output(y, 0), "sum");
  TF_Operation *square = binary(g, "Mul", output(x, 0), output(x, 0), "square");
  CHECK_INT(TF_OperationNumInputs(sum), 2);
  CHECK_INT(TF_OperationInputType(input(sum, 1)), TF_FLOAT);
  TF_Output from = TF_OperationInput(input(sum, 1));
  CHECK(from.oper == y && from.index == 0);
  TF_Output all[2] = {{NULL, -1}, {NULL, -1}};
  TF_OperationAllInputs(sum, all, 1);
  CHECK(all[0].oper == x && all[1].oper == NULL);
  TF_OperationAllInputs(sum, all, 2);
  CHECK(all[0].oper == x && all[1].oper == y);

  CHECK_INT(TF_OperationOutputNumConsumers(output(x, 0)), 3);
  TF_Input consumers[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
  CHECK_INT(TF_OperationOutputConsumers(output(x, 0), consumers, 1), 3); /* all, though one is written */
  CHECK(consumers[0].oper != NULL && consumers[1].oper == NULL);
  CHECK_INT(TF_OperationOutputConsumers(output(x, 0), consumers, 3), 3);
  int of_sum = 0, of_square = 0;
  for (int i = 0; i < 3; i++) {
    of_sum += consumers[i].oper == sum && consumers[i].index == 0;
    of_square += consumers[i].oper == square;
  }
  CHECK_INT(of_sum, 1);
  CHECK_INT(of_square, 2);
  TF_DeleteGraph(g);
}

static void control_inputs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = no_op(g, "a"), *b = no_op(g, "b");
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "c");
  TF_AddControlInput(desc, a);
  TF_AddControlInput(desc, b);
  TF_AddControlInput(desc, a); /* a second edge would mean nothing */
  TF_Operation *c = finish(desc);
  CHECK_INT(TF_OperationNumInputs(c), 0);
  CHECK_INT(TF_OperationNumControlInputs(c), 2);
  TF_Operation *found[2] = {NULL, NULL};
  CHECK_INT(TF_OperationGetControlInputs(c, found, 2), 2);
  CHECK((found[0] == a && found[1] == b) || (found[0] == b && found[1] == a));
  CHECK_INT(TF_OperationNumControlOutputs(a), 1);
  found[0] = NULL;
  CHECK_INT(TF_OperationGetControlOutputs(a, found, 1), 1);
  CHECK(found[0] == c);
  TF_DeleteGraph(g);
}

static void lists(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  TF_Operation *axis = constant(g, i32_scalar(0), "axis");
  TF_Output three[3] = {{x, 0}, {x, 0}, {x, 0}};
  TF_OperationDescription *desc = TF_NewOperation(g, "ConcatV2", "concat");
  TF_AddInputList(desc, three, 3);
  TF_AddInput(desc, output(axis, 0));
  TF_Operation *concat = finish(desc);
  CHECK_INT(TF_OperationNumInputs(concat), 4);
  CHECK_INT(TF_OperationInputListLength(concat, "values", status), 3);
  CHECK_OK(status);
  CHECK_INT(TF_OperationInputListLength(concat, "axis", status), 1);
  CHECK_OK(status);
  CHECK_INT(TF_OperationInputType(input(concat, 3)), TF_INT32);

  desc = TF_NewOperation(g, "Split", "split");
  TF_AddInput(desc, output(axis, 0));
  TF_AddInput(desc, output(concat, 0));
  TF_SetAttrInt(desc, "num_split", 3);
  TF_Operation *split = finish(desc);
  CHECK_INT(TF_OperationNumOutputs(split), 3);
  CHECK_INT(TF_OperationOutputListLength(split, "output", status), 3);
  CHECK_OK(status);
  CHECK_INT(TF_OperationOutputType(output(split, 2)), TF_FLOAT);

  CHECK_INT(TF_OperationInputListLength(concat, "nope", status), -1);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Input arg 'nope' not found");
  CHECK_INT(TF_OperationOutputListLength(concat, "nope", status), -1);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "Output arg 'nope' not found");
  TF_DeleteGraph(g);
}

static void attrs_follow_from_inputs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_HALF, "x");
  TF_Output two[2] = {{x, 0}, {x, 0}};
  TF_OperationDescription *desc = TF_NewOperation(g, "AddN", "sum");
  TF_AddInputList(desc, two, 2);
  TF_Operation *sum = finish(desc);
  int64_t n = 0;
  TF_OperationGetAttrInt(sum, "N", &n, status);
  CHECK_OK(status);
  CHECK_INT(n, 2);
  TF_DataType dtype = TF_FLOAT;
  TF_OperationGetAttrType(sum, "T", &dtype, status);
  CHECK_OK(status);
  CHECK_INT(dtype, TF_HALF);
  CHECK_INT(TF_OperationOutputType(output(sum, 0)), TF_HALF);
  TF_DeleteGraph(g);
}

static void reference_types(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "VariableV2", "v");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  TF_SetAttrShape(desc, "shape", NULL, 0);
  TF_Operation *v = finish(desc);
  TF_Operation *one = constant(g, f32_scalar(1), "one");
  CHECK_INT(TF_OperationOutputType(output(v, 0)), 100 + TF_FLOAT);
  TF_Operation *assign = binary(g, "Assign", output(v, 0), output(one, 0), "assign");
  CHECK_INT(TF_OperationInputType(input(assign, 0)), 100 + TF_FLOAT);
  CHECK_INT(TF_OperationInputType(input(assign, 1)), TF_FLOAT);
  unary(g, "Neg", output(v, 0), "a_reference_serves_as_a_value");
  desc = TF_NewOperation(g, "Assign", "to_constant");
  TF_AddInput(desc, output(one, 0));
  TF_AddInput(desc, output(one, 0));
  finish_fails(desc, TF_INVALID_ARGUMENT, "Input 'ref' passed float expected ref type while building NodeDef 'to_constant'");
  TF_DeleteGraph(g);
}

static void devices(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "n");
  TF_SetDevice(desc, "/cpu:0");
  TF_Operation *op = finish(desc);
  CHECK_STR(TF_OperationDevice(op), "/cpu:0");
  desc = TF_NewOperation(g, "NoOp", "m");
  TF_SetDevice(desc, "not a device");
  CHECK_STR(TF_OperationDevice(finish(desc)), "not a device"); /* checked when it is run */
  TF_DeleteGraph(g);
}

static void colocation(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *b = no_op(g, "b"), *a = no_op(g, "a");
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "n");
  TF_ColocateWith(desc, b);
  TF_ColocateWith(desc, a);
  TF_Operation *op = finish(desc);
  TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, "_class", status);
  CHECK_OK(status);
  CHECK(m.is_list);
  CHECK_INT(m.type, TF_ATTR_STRING);
  CHECK_INT(m.list_size, 2);
  CHECK_INT(m.total_size, 12);
  void *values[2];
  size_t lengths[2];
  char storage[12];
  TF_OperationGetAttrStringList(op, "_class", values, lengths, 2, storage, sizeof storage, status);
  CHECK_OK(status);
  CHECK_INT(lengths[0], 6);
  CHECK(memcmp(values[0], "loc:@a", 6) == 0);
  CHECK(memcmp(values[1], "loc:@b", 6) == 0);
  TF_OperationGetAttrMetadata(a, "_class", status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteGraph(g);
}

static void colocation_merges_with_the_attr(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *a = no_op(g, "a");
  no_op(g, "b");
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "n");
  const void *classes[] = {"loc:@b"};
  const size_t lengths[] = {6};
  TF_SetAttrStringList(desc, "_class", classes, lengths, 1);
  TF_ColocateWith(desc, a);
  TF_AttrMetadata m = TF_OperationGetAttrMetadata(finish(desc), "_class", status);
  CHECK_OK(status);
  CHECK_INT(m.list_size, 2);
  TF_DeleteGraph(g);
}

static void any_name_can_be_built(void) {
  static const char *const names[] = {"", "a b", "_x", "a:b", "/", "x//y"};
  TF_Graph *g = TF_NewGraph();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    TF_Operation *op = no_op(g, names[i]);
    CHECK_STR(TF_OperationName(op), names[i]);
    CHECK(TF_GraphOperationByName(g, names[i]) == op);
  }
  TF_DeleteGraph(g);
}

static void names_are_copied(void) {
  TF_Graph *g = TF_NewGraph();
  char type[] = "NoOp", name[] = "name", device[] = "/cpu:0";
  TF_OperationDescription *desc = TF_NewOperation(g, type, name);
  TF_SetDevice(desc, device);
  memset(type, 'x', 4);
  memset(name, 'x', 4);
  memset(device, 'x', 6);
  TF_Operation *op = finish(desc);
  CHECK_STR(TF_OperationOpType(op), "NoOp");
  CHECK_STR(TF_OperationName(op), "name");
  CHECK_STR(TF_OperationDevice(op), "/cpu:0");
  TF_DeleteGraph(g);
}

static void several_under_construction(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *first = TF_NewOperation(g, "NoOp", "first");
  TF_OperationDescription *second = TF_NewOperation(g, "NoOp", "second");
  TF_OperationDescription *again = TF_NewOperation(g, "NoOp", "first");
  finish(second);
  finish(first);
  finish_fails(again, TF_INVALID_ARGUMENT, "Duplicate node name in graph: 'first'");
  TF_DeleteGraph(g);
}

/* ---- what is refused ---- */

static void duplicate_name(void) {
  TF_Graph *g = TF_NewGraph();
  placeholder(g, TF_FLOAT, "feed");
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "feed");
  TF_SetAttrType(desc, "dtype", TF_FLOAT);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Duplicate node name in graph: 'feed'");
  CHECK_INT(count_operations(g), 1);
  TF_DeleteGraph(g);
}

static void a_failed_operation_leaves_no_trace(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "x");
  finish_fails(desc, TF_INVALID_ARGUMENT, "NodeDef missing attr 'dtype' from Op<name=Placeholder; signature= -> output:dtype; attr=dtype:type; attr=shape:shape,default=<unknown>>; NodeDef: {{node x}}");
  CHECK_INT(count_operations(g), 0);
  CHECK(TF_GraphOperationByName(g, "x") == NULL);
  placeholder(g, TF_FLOAT, "x");
  TF_DeleteGraph(g);
}

static void unknown_op(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "NoSuchOp", "x");
  finish_fails(desc, TF_INVALID_ARGUMENT, "Op type not registered 'NoSuchOp' in binary running on");
  CHECK_MESSAGE(status, "while building NodeDef 'x'");
  TF_DeleteGraph(g);
}

static void wrong_number_of_inputs(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "AddV2", "sum");
  TF_AddInput(desc, x);
  finish_fails(desc, TF_INVALID_ARGUMENT, "1 inputs specified of 2 inputs in Op while building NodeDef 'sum' using Op<name=AddV2;");
  desc = TF_NewOperation(g, "Neg", "neg");
  TF_AddInput(desc, x);
  TF_AddInput(desc, x);
  finish_fails(desc, TF_INVALID_ARGUMENT, "More Input() calls than the 1 input_args while building NodeDef 'neg' using Op<name=Neg;");
  TF_DeleteGraph(g);
}

static void list_or_single(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "neg");
  TF_AddInputList(desc, &x, 1);
  finish_fails(desc, TF_INVALID_ARGUMENT, "List provided to input 'x' when single Tensor expected");
  desc = TF_NewOperation(g, "AddN", "sum");
  TF_AddInput(desc, x);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Single tensor passed to 'inputs', expected list");
  desc = TF_NewOperation(g, "AddN", "none");
  TF_AddInputList(desc, NULL, 0);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Value for attr 'N' of 0 must be at least minimum 1");
  TF_DeleteGraph(g);
}

static void several_builder_errors(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "neg");
  TF_AddInputList(desc, &x, 1);
  TF_AddInput(desc, x);
  finish_fails(desc, TF_INVALID_ARGUMENT, "2 errors while building NodeDef 'neg' using Op<name=Neg;");
  CHECK_MESSAGE(status, "List provided to input 'x' when single Tensor expected");
  CHECK_MESSAGE(status, "More Input() calls than the 1 input_args");
  TF_DeleteGraph(g);
}

static void types_must_agree(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), i = output(placeholder(g, TF_INT32, "i"), 0);
  TF_Output s = output(placeholder(g, TF_STRING, "s"), 0), mixed[2] = {x, i};
  TF_OperationDescription *desc = TF_NewOperation(g, "AddV2", "sum");
  TF_AddInput(desc, x);
  TF_AddInput(desc, i);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Inconsistent values for attr 'T' DT_FLOAT vs. DT_INT32");
  desc = TF_NewOperation(g, "AddN", "sum_n");
  TF_AddInputList(desc, mixed, 2);
  finish_fails(desc, TF_INVALID_ARGUMENT, "");
  CHECK_MESSAGE(status, "while building NodeDef 'sum_n'");
  desc = TF_NewOperation(g, "Neg", "neg");
  TF_AddInput(desc, s);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Value for attr 'T' of string is not in the list of allowed values: bfloat16, half,");
  TF_DeleteGraph(g);
}

static void fixed_types_are_checked(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "Split", "split");
  TF_AddInput(desc, x); /* the axis is an int32 */
  TF_AddInput(desc, x);
  TF_SetAttrInt(desc, "num_split", 2);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Input 'split_dim' passed float expected int32 while building NodeDef 'split'");
  TF_DeleteGraph(g);
}

static void attr_of_the_wrong_kind(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "Placeholder", "x");
  TF_SetAttrInt(desc, "dtype", 1);
  finish_fails(desc, TF_INVALID_ARGUMENT, "AttrValue had value with type 'int' when 'type' expected\n\t for attr 'dtype'");
  TF_DeleteGraph(g);
}

static void attr_values_out_of_range(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = output(placeholder(g, TF_FLOAT, "x"), 0), axis = output(constant(g, i32_scalar(0), "axis"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "Split", "split");
  TF_AddInput(desc, axis);
  TF_AddInput(desc, x);
  TF_SetAttrInt(desc, "num_split", 0);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Value for attr 'num_split' of 0 must be at least minimum 1");
  desc = TF_NewOperation(g, "MaxPool", "pool");
  TF_AddInput(desc, x);
  TF_SetAttrIntList(desc, "ksize", (int64_t[]){1, 2, 2, 1}, 4);
  TF_SetAttrIntList(desc, "strides", (int64_t[]){1, 2, 2, 1}, 4);
  TF_SetAttrString(desc, "padding", "NOPE", 4);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Value for attr 'padding' of \"NOPE\" is not in the list of allowed values: \"SAME\", \"VALID\"");
  desc = TF_NewOperation(g, "MaxPool", "pool");
  TF_AddInput(desc, x);
  TF_SetAttrIntList(desc, "ksize", (int64_t[]){1}, 1);
  TF_SetAttrIntList(desc, "strides", (int64_t[]){1, 2, 2, 1}, 4);
  TF_SetAttrString(desc, "padding", "SAME", 4);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Length for attr 'ksize' of 1 must be at least minimum 4");
  TF_DeleteGraph(g);
}

static void attr_set_twice(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "same");
  TF_SetAttrInt(desc, "_a", 1);
  TF_SetAttrInt(desc, "_a", 1);
  finish(desc);
  desc = TF_NewOperation(g, "NoOp", "other");
  TF_SetAttrInt(desc, "_a", 1);
  TF_SetAttrInt(desc, "_a", 2);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Inconsistent values for attr '_a'");
  TF_DeleteGraph(g);
}

static void undeclared_attrs_are_kept(void) {
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "NoOp", "n");
  TF_SetAttrInt(desc, "not_declared", 7);
  TF_Operation *op = finish(desc);
  int64_t value = 0;
  TF_OperationGetAttrInt(op, "not_declared", &value, status);
  CHECK_OK(status);
  CHECK_INT(value, 7);
  TF_DeleteGraph(g);
}

static void output_index_out_of_range(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  TF_Operation *a = unary(g, "Neg", output(x, 0), "a");
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "b");
  TF_AddInput(desc, output(a, 3));
  finish_fails(desc, TF_INVALID_ARGUMENT, "Attempt to add output 3 of a not in range [0, 1) to node with type Neg. Node: {{node a}}");
  TF_DeleteGraph(g);
}

static void shapes_must_fit(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output a = output(shaped(g, TF_FLOAT, (int64_t[]){3}, 1, "a"), 0);
  TF_Output b = output(shaped(g, TF_FLOAT, (int64_t[]){4}, 1, "b"), 0);
  TF_OperationDescription *desc = TF_NewOperation(g, "AddV2", "x");
  TF_AddInput(desc, a);
  TF_AddInput(desc, b);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Dimensions must be equal, but are 3 and 4 for '{{node x}} = AddV2[T=DT_FLOAT](a, b)' with input shapes: [3], [4].");
  desc = TF_NewOperation(g, "MatMul", "product");
  TF_AddInput(desc, a);
  TF_AddInput(desc, b);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Shape must be rank 2 but is rank 1 for '{{node product}} = MatMul[");
  CHECK_INT(count_operations(g), 2);
  TF_DeleteGraph(g);
}

/* What shape functions say of an operand that holds a shape depends on what they have seen of it. */
static void shapes_may_be_operands(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Output a = output(shaped(g, TF_FLOAT, (int64_t[]){5}, 1, "a"), 0);
  TF_Output square = output(constant(g, i32_vector(2, (int32_t[]){2, 2}), "square"), 0);
  TF_Output negative = output(constant(g, i32_vector(2, (int32_t[]){-2, 3}), "negative"), 0);
  TF_Output none = output(constant(g, i32_vector(0, NULL), "none"), 0);
  TF_Output scalar = output(constant(g, i32_scalar(3), "scalar"), 0);
  TF_Output fed = output(shaped(g, TF_INT32, NULL, 0, "fed"), 0);
  struct {
    const char *op;
    TF_Output shape;
    const char *message;
  } cases[] = {
    {"Reshape", square, "to shape [2,2] (4 elements) for '{{node x}} = Reshape[T=DT_FLOAT, Tshape=DT_INT32](a, square)' "
     "with input shapes: [5], [2] and with input tensors computed as partial shapes: input[1] = [2,2]."},
    {"Reshape", none, "to shape [] (1 elements) for '{{node x}} = Reshape[T=DT_FLOAT, Tshape=DT_INT32](a, none)' with input shapes: [5], [0]."},
    {"Reshape", negative, "Invalid value in tensor used for shape: -2"},
    {"Reshape", scalar, "Shape must be rank 1 but is rank 0 for '{{node x}}"},
    {"TensorListReserve", negative, "Invalid value in tensor used for shape: -2"},
    {"TensorListReserve", scalar, "Received an invalid shape scalar with a static value that is not '-1': Tensor<type: int32 shape: [] values: 3>"},
    {"TensorListReserve", fed, "Received a shape scalar with unknown static value.  A static value of '-1' is required to represent an unknown shape."},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool is_list = strcmp(cases[i].op, "TensorListReserve") == 0;
    TF_OperationDescription *desc = TF_NewOperation(g, cases[i].op, "x");
    if (is_list) TF_SetAttrType(desc, "element_dtype", TF_FLOAT);
    TF_AddInput(desc, is_list ? cases[i].shape : a);
    TF_AddInput(desc, is_list ? scalar : cases[i].shape);
    finish_fails(desc, TF_INVALID_ARGUMENT, cases[i].message);
  }
  TF_DeleteGraph(g);
}

static void operations_of_another_graph(void) {
  if (!is_tfcore()) return; /* undefined in the reference */
  TF_Graph *g = TF_NewGraph(), *other = TF_NewGraph();
  TF_Operation *x = placeholder(other, TF_FLOAT, "x");
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "neg");
  TF_AddInput(desc, output(x, 0));
  CHECK(TF_FinishOperation(desc, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  desc = TF_NewOperation(g, "NoOp", "n");
  TF_AddControlInput(desc, x);
  CHECK(TF_FinishOperation(desc, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  CHECK_INT(count_operations(g), 0);
  TF_DeleteGraph(g);
  TF_DeleteGraph(other);
}

static void null_arguments(void) {
  if (!is_tfcore()) return; /* the reference crashes */
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "Neg", "neg");
  TF_AddInput(desc, output(NULL, 0));
  CHECK(TF_FinishOperation(desc, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  CHECK(TF_FinishOperation(NULL, status) == NULL);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_GraphToGraphDef(g, NULL, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_GraphGetOpDef(g, NULL, NULL, status);
  CHECK_CODE(status, TF_INVALID_ARGUMENT);
  TF_DeleteGraph(g);
}

/* ---- the graph as a whole ---- */

static void iteration(void) {
  TF_Graph *g = TF_NewGraph();
  size_t pos = 0;
  CHECK(TF_GraphNextOperation(g, &pos) == NULL);
  TF_Operation *ops[3] = {no_op(g, "c"), no_op(g, "a"), no_op(g, "b")};
  pos = 0;
  for (int i = 0; i < 3; i++) CHECK(TF_GraphNextOperation(g, &pos) == ops[i]);
  CHECK(TF_GraphNextOperation(g, &pos) == NULL);
  TF_DeleteGraph(g);
}

static void lookup(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = no_op(g, "scope/op");
  CHECK(TF_GraphOperationByName(g, "scope/op") == op);
  CHECK(TF_GraphOperationByName(g, "scope") == NULL);
  CHECK(TF_GraphOperationByName(g, "scope/op:0") == NULL);
  CHECK(TF_GraphOperationByName(g, "_SOURCE") == NULL);
  TF_DeleteGraph(g);
}

static void operations_stay_where_they_are(void) {
  enum { COUNT = 3000 };
  TF_Graph *g = TF_NewGraph();
  static TF_Operation *ops[COUNT];
  char name[16];
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "n%d", i);
    ops[i] = no_op(g, name);
  }
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "n%d", i);
    CHECK_STR(TF_OperationName(ops[i]), name);
    CHECK(TF_GraphOperationByName(g, name) == ops[i]);
  }
  TF_DeleteGraph(g);
}

static void locked_variants(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *op = TF_FinishOperationLocked(TF_NewOperationLocked(g, "NoOp", "n"), status);
  CHECK_OK(status);
  CHECK(TF_GraphOperationByName(g, "n") == op);
  TF_DeleteGraph(g);
}

static void node_def(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  TF_Operation *first = no_op(g, "first");
  TF_OperationDescription *desc = TF_NewOperation(g, "AddV2", "sum");
  TF_AddControlInput(desc, first);
  TF_AddInput(desc, output(x, 0));
  TF_AddInput(desc, output(x, 0));
  TF_SetDevice(desc, "/cpu:0");
  TF_Operation *sum = finish(desc);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_OperationToNodeDef(sum, buffer, status);
  CHECK_OK(status);
  PbView node = pb_view(buffer), attr;
  CHECK(pb_string_is(node, 1, 0, "sum"));
  CHECK(pb_string_is(node, 2, 0, "AddV2"));
  CHECK_INT(pb_count(node, 3), 3);
  CHECK(pb_string_is(node, 3, 0, "x"));
  CHECK(pb_string_is(node, 3, 1, "x"));
  CHECK(pb_string_is(node, 3, 2, "^first"));
  CHECK(pb_string_is(node, 4, 0, "/cpu:0"));
  CHECK(pb_find_attr(node, "T", &attr));
  CHECK_INT(pb_find_int(attr, 6), TF_FLOAT);
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

static void graph_def(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Operation *x = placeholder(g, TF_FLOAT, "x");
  TF_Operation *axis = constant(g, i32_scalar(0), "axis");
  TF_OperationDescription *desc = TF_NewOperation(g, "Split", "split");
  TF_AddInput(desc, output(axis, 0));
  TF_AddInput(desc, output(x, 0));
  TF_SetAttrInt(desc, "num_split", 2);
  TF_Operation *split = finish(desc);
  unary(g, "Neg", output(split, 1), "neg");
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphToGraphDef(g, buffer, status);
  CHECK_OK(status);
  PbView graph = pb_view(buffer), node, attr, versions;
  CHECK_INT(pb_count(graph, 1), 4);
  CHECK(pb_find_node(graph, "neg", &node));
  CHECK(pb_string_is(node, 3, 0, "split:1"));
  CHECK(pb_find_node(graph, "x", &node));
  CHECK(pb_find_attr(node, "shape", &attr)); /* a default, written out */
  CHECK(pb_find(attr, 7, 0, &attr));
  CHECK_INT(pb_find_int(attr, 3), 1);
  CHECK(pb_find(graph, 4, 0, &versions));
  CHECK_INT(pb_find_int(versions, 1), 2474);
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

static void versions(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphVersions(g, buffer, status);
  CHECK_OK(status);
  CHECK_INT(pb_find_int(pb_view(buffer), 1), 2474);
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

static void op_definitions(void) {
  TF_Graph *g = TF_NewGraph();
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphGetOpDef(g, "AddV2", buffer, status);
  CHECK_OK(status);
  PbView def = pb_view(buffer), arg;
  CHECK(pb_string_is(def, 1, 0, "AddV2"));
  CHECK_INT(pb_count(def, 2), 2);
  CHECK(pb_find(def, 2, 1, &arg));
  CHECK(pb_string_is(arg, 1, 0, "y"));
  TF_DeleteBuffer(buffer);
  buffer = TF_NewBuffer();
  TF_GraphGetOpDef(g, "NoSuchOp", buffer, status);
  CHECK_ERROR(status, TF_NOT_FOUND, "Op type not registered 'NoSuchOp' in binary running on");
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

static void no_functions_at_first(void) {
  TF_Graph *g = TF_NewGraph();
  CHECK_INT(TF_GraphNumFunctions(g), 0);
  TF_DeleteGraph(g);
}

CASES(CASE(placeholder_and_its_queries), CASE(inputs_and_consumers), CASE(control_inputs), CASE(lists),
      CASE(attrs_follow_from_inputs), CASE(reference_types), CASE(devices), CASE(colocation),
      CASE(colocation_merges_with_the_attr), CASE(any_name_can_be_built), CASE(names_are_copied),
      CASE(several_under_construction), CASE(duplicate_name), CASE(a_failed_operation_leaves_no_trace),
      CASE(unknown_op), CASE(wrong_number_of_inputs), CASE(list_or_single), CASE(several_builder_errors),
      CASE(types_must_agree), CASE(fixed_types_are_checked), CASE(attr_of_the_wrong_kind),
      CASE(attr_values_out_of_range), CASE(attr_set_twice), CASE(undeclared_attrs_are_kept),
      CASE(output_index_out_of_range), CASE(shapes_must_fit), CASE(shapes_may_be_operands), CASE(operations_of_another_graph), CASE(null_arguments),
      CASE(iteration), CASE(lookup), CASE(operations_stay_where_they_are), CASE(locked_variants), CASE(node_def),
      CASE(graph_def), CASE(versions), CASE(op_definitions), CASE(no_functions_at_first))
