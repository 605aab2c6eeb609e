// SPDX-License-Identifier: Apache-2.0
// The functions of <math.h> whose results C libraries round differently, and the same library
// differently on other processors, with the same bits everywhere: initial weights, schedules,
// losses and probabilities are computed with them. They are built from additions, products,
// divisions and roots in double, which IEEE 754 defines to the bit. The relative error is at most
// 2e-15, that of erf 3e-15 and of tanh 3e-14.
//
// Leaves out the kernels' functions of float (device/cpu/kernels/math.h), which are faster.
#ifndef BERTH_CORE_PORTABLE_MATH_H
#define BERTH_CORE_PORTABLE_MATH_H

double math_exp(double x);
// The natural logarithm.
double math_log(double x);
// log(1 + x), with all digits where x is small; x > -1.
double math_log1p(double x);
// x^y; x is not negative.
double math_power(double x, double y);
double math_tanh(double x);
double math_erf(double x);
// cos(pi x) and sin(pi x); x is finite.
double math_cosine_pi(double x);
double math_sine_pi(double x);

#endif
