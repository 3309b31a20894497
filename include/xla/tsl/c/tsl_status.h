#ifndef XLA_TSL_C_TSL_STATUS_H_
#define XLA_TSL_C_TSL_STATUS_H_

#include "tensorflow/c/tf_status.h"



#endif  /* XLA_TSL_C_TSL_STATUS_H_ */
