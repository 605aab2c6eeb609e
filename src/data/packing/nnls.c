// SPDX-License-Identifier: Apache-2.0
// Non-negative least squares by Lawson and Hanson's method ("Solving least squares problems", 1974,
// chapter 23) on the normal equations, which are small and accurate enough here, because A contains
// small integers. A new column extends the Cholesky factor by a row; removing a column recomputes
// the rows after it. Called once for each window of the pack stage, by packing.c.
#include "data/packing/nnls.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

#define TOLERANCE 1e-9

struct solver {
    const struct nnls *problem;
    double *x;
    double *residual; // [rows + 1] W^2 (b - A x)
    size_t *used;     // columns in use
    size_t count;
    unsigned char *state; // [columns] 1: in use, 2: depends on those in use
    double *factor;       // [rows, rows] lower triangle
    double *solution, *rhs;
};

static double product(const struct nnls *problem, size_t a, size_t b) {
    double sum = 0;
    for (int i = 0; i < NNLS_ROWS && problem->column[a][i] > 0; i++) {
        for (int j = 0; j < NNLS_ROWS && problem->column[b][j] > 0; j++) {
            if (problem->column[a][i] == problem->column[b][j]) {
                sum += problem->weights[problem->column[a][i]];
            }
        }
    }
    return sum;
}

static double dot_column(const struct nnls *problem, size_t column, const double *vector) {
    double sum = 0;
    for (int i = 0; i < NNLS_ROWS && problem->column[column][i] > 0; i++) {
        sum += vector[problem->column[column][i]];
    }
    return sum;
}

static void find_residual(struct solver *solver) {
    const struct nnls *problem = solver->problem;
    memcpy(solver->residual, problem->b, (problem->rows + 1) * sizeof *problem->b);
    for (size_t i = 0; i < solver->count; i++) {
        size_t column = solver->used[i];
        for (int j = 0; j < NNLS_ROWS && problem->column[column][j] > 0; j++) {
            solver->residual[problem->column[column][j]] -= solver->x[column];
        }
    }
    for (size_t i = 1; i <= problem->rows; i++) {
        solver->residual[i] *= problem->weights[i];
    }
}

// Computes row `row` of the factor, for column used[row]; 0 if that column depends on the columns
// before it.
static int factor_row(struct solver *solver, size_t row) {
    size_t rows = solver->problem->rows, column = solver->used[row];
    double *line = solver->factor + row * rows;
    double left = product(solver->problem, column, column), whole = left;
    for (size_t i = 0; i < row; i++) {
        const double *above = solver->factor + i * rows;
        double sum = product(solver->problem, column, solver->used[i]);
        for (size_t j = 0; j < i; j++) {
            sum -= line[j] * above[j];
        }
        line[i] = sum / above[i];
        left -= line[i] * line[i];
    }
    line[row] = left > TOLERANCE * whole ? sqrt(left) : 0;
    return line[row] > 0;
}

// Computes the least-squares solution for the columns in use.
static void solve_used(struct solver *solver) {
    size_t rows = solver->problem->rows;
    for (size_t i = 0; i < solver->count; i++) {
        const double *line = solver->factor + i * rows;
        double sum = dot_column(solver->problem, solver->used[i], solver->rhs);
        for (size_t j = 0; j < i; j++) {
            sum -= line[j] * solver->solution[j];
        }
        solver->solution[i] = sum / line[i];
    }
    for (size_t i = solver->count; i-- > 0;) {
        double value = solver->solution[i] / solver->factor[i * rows + i];
        solver->solution[i] = value;
        for (size_t j = 0; j < i; j++) {
            solver->solution[j] -= solver->factor[i * rows + j] * value;
        }
    }
}

// The column that reduces the error most, if its gradient exceeds `threshold`; otherwise `columns`.
static size_t best_column(const struct solver *solver, double threshold) {
    size_t best = solver->problem->columns;
    for (size_t i = 0; i < solver->problem->columns; i++) {
        double gradient =
            solver->state[i] == 0 ? dot_column(solver->problem, i, solver->residual) : 0;
        if (gradient > threshold) {
            threshold = gradient;
            best = i;
        }
    }
    return best;
}

// Removes the columns that have become 0 and recomputes the factor from the first of them.
static void drop_zeros(struct solver *solver) {
    size_t kept = 0, first = solver->count;
    for (size_t i = 0; i < solver->count; i++) {
        size_t column = solver->used[i];
        if (solver->x[column] > TOLERANCE) {
            solver->used[kept++] = column;
            continue;
        }
        solver->x[column] = 0;
        solver->state[column] = 0;
        first = i < first ? i : first;
    }
    solver->count = kept;
    for (size_t i = first; i < kept; i++) {
        factor_row(solver, i);
    }
}

// The largest step towards the solution that keeps all x positive; 1: the full step.
static double step_of(const struct solver *solver) {
    double step = 1;
    for (size_t i = 0; i < solver->count; i++) {
        double x = solver->x[solver->used[i]], to = solver->solution[i];
        if (to <= TOLERANCE && x - to > 0) {
            double limit = x / (x - to);
            step = limit < step ? limit : step;
        }
    }
    return step;
}

// Moves x towards the solution and drops the columns that reach zero, until the solution is
// feasible.
static void restore_feasibility(struct solver *solver) {
    for (double step = 0; step < 1 && solver->count > 0;) {
        solve_used(solver);
        step = step_of(solver);
        for (size_t i = 0; i < solver->count; i++) {
            double *x = &solver->x[solver->used[i]];
            *x += step * (solver->solution[i] - *x);
        }
        if (step < 1) {
            drop_zeros(solver);
        }
    }
}

static void solve(struct solver *solver) {
    const struct nnls *problem = solver->problem;
    double largest = 0;
    for (size_t i = 1; i <= problem->rows; i++) {
        solver->rhs[i] = problem->weights[i] * problem->b[i];
        largest = fabs(solver->rhs[i]) > largest ? fabs(solver->rhs[i]) : largest;
    }
    find_residual(solver);
    for (size_t round = 0; round < 3 * problem->columns && solver->count < problem->rows; round++) {
        size_t column = best_column(solver, TOLERANCE * largest);
        if (column == problem->columns) {
            return;
        }
        solver->used[solver->count] = column;
        solver->state[column] = 1;
        if (!factor_row(solver, solver->count)) {
            solver->state[column] = 2;
            continue;
        }
        solver->count++;
        restore_feasibility(solver);
        find_residual(solver);
    }
}

enum berth_status nnls_solve(const struct nnls *problem, double *x, struct berth_error *error) {
    size_t rows = problem->rows, numbers = rows * rows + 4 * (rows + 1);
    double *workspace = memory_array_zeroed(numbers, sizeof *workspace);
    struct solver solver = {.problem = problem, .x = x};
    solver.used = memory_array(rows + 1, sizeof *solver.used);
    solver.state = memory_array_zeroed(problem->columns + 1, 1);
    memset(x, 0, problem->columns * sizeof *x);
    int allocated = workspace != NULL && solver.used != NULL && solver.state != NULL;
    if (allocated) {
        solver.factor = workspace;
        solver.residual = workspace + rows * rows;
        solver.solution = solver.residual + rows + 1;
        solver.rhs = solver.solution + rows + 1;
        solve(&solver);
    }
    memory_free(workspace);
    memory_free(solver.used);
    memory_free(solver.state);
    return allocated ? BERTH_OK
                     : error_no_memory(error, numbers * sizeof *workspace, "the packing's solver");
}
