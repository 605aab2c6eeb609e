// SPDX-License-Identifier: Apache-2.0
// Elementary functions from the operations that IEEE 754 defines to the bit. Each reduces its
// argument to a short interval, where a power series ends soon. The compiler must not fuse
// multiply-adds here (-ffp-contract=off).
//
// Leaves out errno and floating-point exceptions.
#include "core/portable_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define PI 3.14159265358979323846
// ln 2 in two parts: products of the first with integers below 2^20 are exact.
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW 0x1.a39ef35793c76p-33

// c[0] + c[1] x + ... + c[count - 1] x^(count - 1)
static double polynomial(const double *c, int count, double x) {
    double sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--) {
        sum = sum * x + c[i];
    }
    return sum;
}

// x 2^n
static double scaled(double x, int n) {
    if (n < -1022 || n > 1023) {
        return ldexp(x, n);
    }
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return x * power;
}

// x = n ln 2 + r with r in [-ln 2 / 2, ln 2 / 2]; e^x = 2^n e^r.
double math_exp(double x) {
    // 1 / k! from k = 2 on
    static const double c[] = {1.0 / 2,          1.0 / 6,        1.0 / 24,        1.0 / 120,
                               1.0 / 720,        1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                               1.0 / 3628800,    1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
                               1.0 / 87178291200};
    if (!(x > -746.0 && x < 710.0)) {
        return x >= 710.0 ? INFINITY : x <= -746.0 ? 0.0 : x; // the last is a NaN
    }
    const double n = nearbyint(x * 1.44269504088896340736);
    const double r = (x - n * LN2_HIGH) - n * LN2_LOW;
    return scaled(1.0 + (r + r * r * polynomial(c, 13, r)), (int)n);
}

// x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)], and log(1 + f) = 2 artanh(s), s = f / (2 +
// f).
double math_log(double x) {
    // 2 / (2 k + 1) from k = 1 on
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                               2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
    if (!(x > 0.0 && x < INFINITY)) {
        return x == 0.0 ? -INFINITY : x < 0.0 ? NAN : x; // the last is infinite or a NaN
    }
    int n;
    double m = frexp(x, &n);
    if (m < 0.70710678118654752440) {
        m *= 2.0;
        n--;
    }
    const double f = m - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    const double rest = z * polynomial(c, 11, z); // 2 s = f - half + s half, without its rounding
    return n * LN2_HIGH - ((half - (s * (half + rest) + n * LN2_LOW)) - f);
}

// The quotient makes up for the rounding of 1 + x.
double math_log1p(double x) {
    const double sum = 1.0 + x;
    return sum == 1.0 || !(sum < INFINITY) ? x : math_log(sum) * (x / (sum - 1.0));
}

// A number as the sum of two, of which the second has the digits that the first lacks.
struct two_doubles {
    double high, low;
};

// fma rounds once, with the processor's instruction as without it.
static struct two_doubles product_of(struct two_doubles x, struct two_doubles y) {
    const double high = x.high * y.high;
    const double low = fma(x.high, y.high, -high) + (x.high * y.low + x.low * y.high);
    const double sum = high + low;
    return (struct two_doubles){sum, low - (sum - high)};
}

// The whole part of y by squaring, in twice the digits; the rest by the exponential.
double math_power(double x, double y) {
    const double size = fabs(y), whole = floor(size);
    if (!(whole < 0x1p53)) {
        return math_exp(y * math_log(x));
    }
    struct two_doubles result = {1.0, 0.0}, square = {x, 0.0};
    for (uint64_t n = (uint64_t)whole; n != 0; n >>= 1) {
        result = (n & 1) != 0 ? product_of(result, square) : result;
        square = product_of(square, square);
    }
    const double power =
        size == whole ? result.high : result.high * math_exp((size - whole) * math_log(x));
    return y < 0.0 ? 1.0 / power : power;
}

double math_tanh(double x) {
    const double size = fabs(x), square = x * x;
    if (size < 1e-3) {
        return x * (1.0 - square * (1.0 / 3 - square * (2.0 / 15)));
    }
    const double e = math_exp(-2.0 * size), y = (1.0 - e) / (1.0 + e);
    return x < 0.0 ? -y : y;
}

// 2 / sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 2^2 x^5 / (3 5) + ...), whose terms have one sign.
double math_erf(double x) {
    const double square = x * x;
    if (!(square < 36.0)) {
        return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
    }
    double sum = 0.0, term = x;
    for (double divisor = 3.0; sum + term != sum; divisor += 2.0) {
        sum += term;
        term *= 2.0 * square / divisor;
    }
    return 1.12837916709551257390 * math_exp(-square) * sum;
}

// cos(pi (x - quarters / 2)): x = n / 2 + r with r in [-1/4, 1/4], and n says which function of r.
static double wave(double x, int64_t quarters) {
    static const double sines[] = {1.0,
                                   -1.0 / 6,
                                   1.0 / 120,
                                   -1.0 / 5040,
                                   1.0 / 362880,
                                   -1.0 / 39916800,
                                   1.0 / 6227020800,
                                   -1.0 / 1307674368000,
                                   1.0 / 355687428096000};
    static const double cosines[] = {1.0,
                                     -1.0 / 2,
                                     1.0 / 24,
                                     -1.0 / 720,
                                     1.0 / 40320,
                                     -1.0 / 3628800,
                                     1.0 / 479001600,
                                     -1.0 / 87178291200,
                                     1.0 / 20922789888000};
    const double turn = fmod(x, 2.0), n = nearbyint(2.0 * turn), t = PI * (turn - n / 2.0);
    const int64_t quarter = ((int64_t)n - quarters + 8) % 4;
    const double y =
        quarter % 2 == 0 ? polynomial(cosines, 9, t * t) : t * polynomial(sines, 9, t * t);
    return quarter == 0 || quarter == 3 ? y : -y;
}

double math_cosine_pi(double x) {
    return wave(x, 0);
}

double math_sine_pi(double x) {
    return wave(x, 1);
}
